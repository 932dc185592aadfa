-- Remove a blob, but not if it was put at this moment (ARGV[2], microseconds) or later; returns whether it went.
-- KEYS: blobs, order, published pieces. ARGV: digest, moment or ''.

local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known then return 0 end
local put_at = tonumber(string.match(known, ' (%d+)$'))
if ARGV[2] ~= '' and put_at >= tonumber(ARGV[2]) then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('UNLINK', KEYS[3])
return 1
