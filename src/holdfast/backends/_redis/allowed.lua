-- Try every command with which a commit writes, by calls that change nothing: refused in the middle of a commit, one
-- would leave it half made. KEYS: commits, the order of some kind. Returns what was refused, or nothing.

local tries = {
  { 'HSET', KEYS[1], '', '0 0' }, -- a client that is not there, and has not been heard of since 1970
  { 'HDEL', KEYS[1], '' },
  { 'ZADD', KEYS[2], 'XX', 0, '' },
  { 'ZREM', KEYS[2], '' },
  { 'TIME' },
}
for _, command in ipairs(tries) do
  local answer = redis.pcall(unpack(command))
  if type(answer) == 'table' and answer.err then return command[1] .. ': ' .. answer.err end
end
return ''
