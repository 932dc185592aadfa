-- A commit: every condition first, against what is there; then all writes. Nothing after the first write
-- can fail: allowed.lua has found out at opening that no command will be refused.
-- KEYS: commits, the stream of word, then rows, order and unique of each kind, then turns. ARGV: slot, number, the token
-- of the turn that it is made in or '', how many entries the stream keeps, the kinds, the operations.
-- Returns 'OK', or a refusal: 'moved' or 'taken', which operation, and the key and row that are there.

local slot, number, token = ARGV[1], ARGV[2], ARGV[3]
local last = redis.call('HGET', KEYS[1], slot)
if last and string.sub(last, 1, #number + 1) == number .. ' ' then return 'OK' end -- the answer to it was lost

local places, at = {}, 6
for i = 1, tonumber(ARGV[5]) do
  places[i] = { rows = KEYS[3 * i], order = KEYS[3 * i + 1], unique = KEYS[3 * i + 2], kind = KINDS[ARGV[at]] }
  places[i].claims, places[i].fresh = {}, {}
  at = at + 1
end

local changes = {}

-- Whoever holds a unique value: as this commit leaves it so far, else as it is stored.
local function holder(place, claim)
  local claimed = place.claims[claim]
  if claimed == nil then claimed = redis.call('HGET', place.unique, claim) end
  return claimed
end

local function change(place, key, old, new)
  local one = { place = place, key = key, row = new, gone = {}, come = {} }
  if old then
    local cols = columns(place.kind, key, old)
    one.gone, one.unclaim = entries(place.kind, key, cols), claim_of(place.kind, cols)
    if one.unclaim then place.claims[one.unclaim] = false end
  end
  if new then
    local cols = columns(place.kind, key, new)
    one.come, one.claim = entries(place.kind, key, cols), claim_of(place.kind, cols)
    if one.claim then place.claims[one.claim] = key end
    place.fresh[key] = new
  end
  changes[#changes + 1] = one
end

-- The key and row of another record that holds the unique value of this one, if there is one.
local function rival(place, key, row)
  local claim = claim_of(place.kind, (columns(place.kind, key, row)))
  local held = claim and holder(place, claim)
  if not held or held == key then return nil end
  return held, place.fresh[held] or redis.call('HGET', place.rows, held)
end

local check = {}

function check.insert(place, key)
  local row, present = ARGV[at], redis.call('HGET', place.rows, key)
  at = at + 1
  if present then
    if digest_of(present) ~= digest_of(row) then return 'taken', key, present end
    return nil
  end
  local other, theirs = rival(place, key, row)
  if other then return 'taken', other, theirs end
  change(place, key, false, row)
end

-- Whether it is somebody else's turn to change a record; number 0 is one at which nobody waits for turns.
local function is_out_of_turn(turn)
  local holds = turn > 0 and redis.call('GET', KEYS[2 + 3 * #places + turn])
  return holds and holds ~= token
end

function check.put(place, key)
  local row, over, present = ARGV[at], ARGV[at + 1], redis.call('HGET', place.rows, key)
  local turn = tonumber(ARGV[at + 2])
  at = at + 3
  if is_out_of_turn(turn) then return 'moved', key, present end
  if over ~= '' and (not present or digest_of(present) ~= over) then return 'moved', key, present end
  local other, theirs = rival(place, key, row)
  if other then return 'taken', other, theirs end
  if present ~= row then change(place, key, present, row) end
end

-- An empty digest is absence.
function check.require(place, key)
  local wanted, present = ARGV[at], redis.call('HGET', place.rows, key)
  at = at + 1
  if (present and digest_of(present) or '') ~= wanted then return 'moved', key, present end
end

-- The key is a unique value here, or empty; then a range is given.
function check.delete(place, claim)
  local low, high, tests = ARGV[at], ARGV[at + 1], nil
  tests, at = read_tests(at + 2)
  local function visit(_, key, row)
    if #tests == 0 or passes(columns(place.kind, key, row), tests) then change(place, key, row, false) end
  end
  if claim == '' then
    walk(place.rows, place.order, low, high, false, 100, visit)
    return nil
  end
  local key = redis.call('HGET', place.unique, claim)
  local row = key and redis.call('HGET', place.rows, key)
  if row then visit(nil, key, row) end
end

local operation = 0
while at <= #ARGV do
  operation = operation + 1
  local name, place, key = ARGV[at], places[tonumber(ARGV[at + 1])], ARGV[at + 2]
  at = at + 3
  local refused, there, row = check[name](place, key)
  if refused then return { refused, operation, there, row or '' } end
end

for _, one in ipairs(changes) do
  local place = one.place
  for entry in pairs(one.gone) do
    if not one.come[entry] then redis.call('ZREM', place.order, entry) end
  end
  if one.unclaim and one.unclaim ~= one.claim then redis.call('HDEL', place.unique, one.unclaim) end
  if not one.row then redis.call('HDEL', place.rows, one.key) end
end
for _, one in ipairs(changes) do
  local place = one.place
  if one.row then
    redis.call('HSET', place.rows, one.key, one.row)
    for entry in pairs(one.come) do
      if not one.gone[entry] then redis.call('ZADD', place.order, 0, entry) end
    end
    if one.claim and one.claim ~= one.unclaim then redis.call('HSET', place.unique, one.claim, one.key) end
  end
end
-- Whoever follows a run hears of its events, once for each session; one who may not add to the stream still writes.
local told = {}
for _, one in ipairs(changes) do
  if one.row and one.place.kind == KINDS.events then
    local owner = columns(one.place.kind, one.key, one.row)[1]
    if not told[owner] then redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'event', one.key) end
    told[owner] = true
  end
end
if #changes > 0 then redis.call('HSET', KEYS[1], slot, number .. ' ' .. redis.call('TIME')[1]) end
return 'OK'
