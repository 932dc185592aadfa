-- Forget the last commits of clients that have not been heard of since a time (ARGV[1], seconds).
-- KEYS: commits. Returns how many.

local gone, all = 0, redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if tonumber(string.match(all[i + 1], ' (%d+)$')) < tonumber(ARGV[1]) then
    gone = gone + redis.call('HDEL', KEYS[1], all[i])
  end
end
return gone
