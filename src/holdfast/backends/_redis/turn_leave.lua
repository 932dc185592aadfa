-- End one's turn: whoever has waited longest gets the baton, which is the token of the next turn.
-- KEYS: turn, baton, waiting. ARGV: token, name among those who wait, how long a turn may last (milliseconds).

redis.call('ZREM', KEYS[3], ARGV[2])
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local now = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now[1] * 1000 + math.floor(now[2] / 1000))
if redis.call('ZCARD', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 0
end
local token = ARGV[1] .. '+'
if #token > 64 then token = ARGV[2] end
redis.call('SET', KEYS[1], token, 'PX', ARGV[3])
redis.call('DEL', KEYS[2])
redis.call('RPUSH', KEYS[2], token)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
