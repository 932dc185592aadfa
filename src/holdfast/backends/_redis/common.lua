-- What every script knows: the kinds (KINDS, put in front of this), columns of a row, entries of its indexes, filters.
-- Numbers of 64 bits stay bytes all the way: Lua's are doubles. Texts are never compared with < either: that follows
-- the server's locale.

local function size_at(bytes, at, width)
  local size = 0
  for i = at, at + width - 1 do size = size * 256 + string.byte(bytes, i) end
  return size
end

local function digest_of(row)
  return string.sub(row, 2, 1 + string.byte(row, 1))
end

-- The key's parts and the fields, encoded, and where the body begins.
local function columns(kind, key, row)
  local found, at = {}, 1
  for i = 1, #kind.types do
    local stop = at + 7
    if string.sub(kind.types, i, i) ~= 'i' then
      local _, last = string.find(key, '\0\1', at, true)
      stop = last
    end
    found[i] = string.sub(key, at, stop)
    at = stop + 1
  end
  at = 2 + string.byte(row, 1)
  for i = 1, kind.fields do
    local size = size_at(row, at, 4)
    found[#kind.types + i] = string.sub(row, at + 4, at + 3 + size)
    at = at + 4 + size
  end
  return found, at
end

-- The columns of these numbers, joined; nil if one of them is None.
local function joined(cols, numbers)
  local parts = {}
  for i, number in ipairs(numbers) do
    if cols[number] == '' then return nil end
    parts[i] = cols[number]
  end
  return table.concat(parts)
end

-- The entries of a row in the sorted set, as a set.
local function entries(kind, key, cols)
  local found = { ['\0' .. key] = true }
  local tail = key .. string.char(math.floor(#key / 256), #key % 256)
  for number, index in ipairs(kind.indexes) do
    local head = joined(cols, index)
    if head then found[string.char(number) .. head .. tail] = true end
  end
  return found
end

local function key_in(entry)
  if string.byte(entry, 1) == 0 then return string.sub(entry, 2) end
  return string.sub(entry, -2 - size_at(entry, #entry - 1, 2), -3)
end

local function claim_of(kind, cols)
  return kind.unique and joined(cols, kind.unique)
end

local function is_less(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Filters from ARGV[at] on, and where they end.
local function read_tests(at)
  local tests = {}
  for i = 1, tonumber(ARGV[at]) do
    local first = at + 3 * i - 2
    tests[i] = { column = tonumber(ARGV[first]), compare = ARGV[first + 1], value = ARGV[first + 2] }
  end
  return tests, at + 3 * #tests + 1
end

local function passes(cols, tests)
  for _, test in ipairs(tests) do
    local present, compare = cols[test.column], test.compare
    if compare == '=' then
      if present ~= test.value then return false end
    elseif compare == '!=' then
      if present == test.value then return false end
    elseif present == '' or is_less(present, test.value) ~= (compare == '<') then
      return false
    end
  end
  return true
end

-- Calls visit(entry, key, row) for each row whose entry lies in the range, until it returns true.
local function walk(rows, order, low, high, reverse, step, visit)
  while true do
    local found
    if reverse then
      found = redis.call('ZREVRANGEBYLEX', order, high, low, 'LIMIT', 0, step)
    else
      found = redis.call('ZRANGEBYLEX', order, low, high, 'LIMIT', 0, step)
    end
    if #found == 0 then return end
    local keys = {}
    for i, entry in ipairs(found) do keys[i] = key_in(entry) end
    local values = redis.call('HMGET', rows, unpack(keys))
    for i, entry in ipairs(found) do
      if values[i] and visit(entry, keys[i], values[i]) then return end
    end
    if #found < step then return end
    if reverse then high = '(' .. found[#found] else low = '(' .. found[#found] end
  end
end
