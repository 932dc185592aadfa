-- Publish the pieces of a blob under its digest, or renew the blob that has them already.
-- KEYS: blobs, order, staging, staged pieces, published pieces. ARGV: digest, size, how many pieces, staging name.
-- Returns when it was put, in microseconds by the server's clock, or '' if the staged pieces are not all there.

local known = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not known and redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[3]) then return '' end
local now = redis.call('TIME')
local put_at = string.format('%.0f', now[1] * 1000000 + now[2])
if known then
  redis.call('UNLINK', KEYS[4])
else
  redis.call('RENAME', KEYS[4], KEYS[5])
  redis.call('ZADD', KEYS[2], 0, ARGV[1])
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. put_at)
redis.call('ZREM', KEYS[3], ARGV[4])
return put_at
