-- Take the turn at a record if nobody has it, else stand among those who wait for it; returns whether it was taken.
-- KEYS: turn, baton, waiting. ARGV: token, how long a turn or a wait may last (milliseconds).

local holds = redis.call('GET', KEYS[1])
if holds == ARGV[1] then return 1 end -- the answer to it was lost
if not holds then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  redis.call('DEL', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[1])
  return 1
end
local now = redis.call('TIME')
redis.call('ZADD', KEYS[3], now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[3], 2 * ARGV[2])
return 0
