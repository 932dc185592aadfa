-- Keep one piece of a blob that is being put, and note when, so that what is never finished can be found.
-- KEYS: staging, staged pieces. ARGV: staging name, which piece, its bytes.

local now = redis.call('TIME')
redis.call('ZADD', KEYS[1], string.format('%.0f', now[1] * 1000000 + now[2]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 'OK'
