-- Rows that match, or how many there are, or how many bytes their bodies have; some at a time.
-- KEYS: rows, order, unique. ARGV: kind, what, claim, low, high, reverse, limit, the most rows and bytes to look at, filters.
-- Returns the entry to go on behind, or '' at the end, then a number or the rows, each behind its key.

local kind, what, claim = KINDS[ARGV[1]], ARGV[2], ARGV[3]
local limit, most_rows, most_bytes = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local tests = read_tests(10)
local found, count, bodies, seen, bytes = { '' }, 0, 0, 0, 0

local function take(key, row)
  local cols, at = columns(kind, key, row)
  if not passes(cols, tests) then return end
  count = count + 1
  bodies = bodies + #row - at + 1
  if what == 'rows' then
    bytes = bytes + #row
    found[#found + 1] = key
    found[#found + 1] = row
  end
end

if claim ~= '' then
  local key = redis.call('HGET', KEYS[3], claim)
  local row = key and redis.call('HGET', KEYS[1], key)
  if row then take(key, row) end
else
  local step = #tests == 0 and math.min(limit, 100) or 100
  walk(KEYS[1], KEYS[2], ARGV[4], ARGV[5], ARGV[6] == '1', step, function(entry, key, row)
    seen = seen + 1
    take(key, row)
    if what == 'rows' and count >= limit then return true end
    if seen >= most_rows or bytes >= most_bytes then
      found[1] = entry
      return true
    end
  end)
end

if what == 'count' then found[2] = count elseif what == 'bytes' then found[2] = bodies end
return found
