internal import Platform

/// The slots of scopes: what is in flight of each scope, what waits, and the pace of its lane.
///
/// The record of a scope in `slots` is `<last>|<flight>|<claim>|<queue>|<holder>`: the highest rank that APNs accepted, the rank
/// in flight (0: none) with its `ClaimID` and worker, and the jobs that wait, each as `<rank>:<event><crashes>:<due>,`. Without a
/// job in flight and one that waits, `claim` is the time at which the record ends. A job in `states` stands behind the fields of
/// its result: their number and a line end, and the length, a line end and the bytes of each.
///
/// The record of a lane is `<distance> <until> <pause> <refused> <since>`, all in milliseconds: the distance between two updates,
/// the time of the next one, the pause after a 429 without Retry-After, the time of the last 429, and the time at which the last
/// minute of acceptances began. The pause is long, because a 429 says that nothing is admitted for a while; the distance follows
/// what the lane accepts over minutes.
///
/// A rank keeps the order across workers: an older job that arrives after a newer one has no effect. A job in flight that
/// returns, from its worker or from a dead one, ends the flight by its rank.
enum Slots {
    /// In front of the app in the hash `asides`.
    static let mark = "\u{1}"
    /// The time for which the record of a scope stays when nothing of it waits or is in flight: older jobs of dead workers come
    /// back later than newer ones were sent.
    static let lifetime = Duration.seconds(300)
    /// The time after which a worker with a job of the scope is looked for: an older version, or an operator, may have removed
    /// the job.
    static let review = Duration.seconds(60)
    /// The longest time for which a job waits for claims of other workers that may have an older job of its scope and have not
    /// read it: otherwise a start would be sent behind it, and an end would not be sent. A claim that has no jobs with a scope
    /// is known to be read from its first response on.
    static let unreadWait = Duration.milliseconds(500)
    /// The time between two looks at these claims.
    static let unreadInterval = Duration.milliseconds(25)
    /// Most jobs that wait in one slot. Further ones are delayed.
    static let mostWaiting = 1000
    static let overflowDelay = Duration.seconds(15)
    /// The first pause after a 429 without Retry-After, and the longest of those that double. A pause is never shorter.
    static let firstPause = Duration.seconds(15)
    static let longestPause = Duration.seconds(120)
    /// Each 429 makes the distance between two updates longer by this factor, from `firstPause` or a shorter Retry-After on; each
    /// minute of acceptances makes it shorter by a tenth. With a third and a tenth, a lane whose limit is steady gets a 429 every
    /// three or four minutes. `make match` prints what other schedules reach.
    static let widening = 4.0 / 3
    /// The longest pause that APNs may ask for.
    static let longestAskedPause = Duration.seconds(900)
    /// More responses of 429 within this time are of the same moment, and do not double the pause.
    static let burst = Duration.seconds(5)
    /// A distance that has become shorter ends, and with it the pause.
    static let shortestDistance = Duration.seconds(1)
    /// The time after which the pace of a lane without updates is forgotten.
    static let paceLifetime = Duration.seconds(3600)

    /// The argument for a pause between two updates of a channel; `nil` follows the responses.
    static func text(of pace: Duration?) -> String {
        pace.map { String(milliseconds(max(.zero, min($0, paceLifetime)))) } ?? "-1"
    }

    private static func milliseconds(_ duration: Duration) -> Int { Int(duration / .milliseconds(1)) }

    /// Functions for the slots of a list. Needs the time in milliseconds.
    static let functions = """
        local function slotsOf(slots, states, waiting, paced, asides, now)
          local S = {}
          local function text(number) return string.format('%.0f', number) end
          local function write(scope, s)
            local queue = {}
            for i, e in ipairs(s.queue) do
              queue[i] = string.format('%.0f:%s%s:%.0f', e.rank, e.kind, e.level, e.due)
            end
            if s.flight == 0 then
              s.holder, s.claim = '', #queue == 0 and text(now + \(milliseconds(lifetime))) or '0'
            end
            local record = text(s.last) .. '|' .. text(s.flight) .. '|' .. s.claim .. '|' .. table.concat(queue, ',') .. '|'
            redis.call('HSET', slots, scope, record .. s.holder)
          end
          function S.lane(scope) return string.match(scope, '^(.*) %S+$') or scope end
          function S.isOrdered(scope) return string.sub(scope, -2) == ' \(Scope.ordered)' end
          function S.read(scope)
            local s = {last = 0, flight = 0, claim = '0', holder = '', queue = {}}
            local record = redis.call('HGET', slots, scope) or ''
            local last, flight, claim, queue, holder = string.match(record, '^(%d+)|(%d+)|(%d+)|([^|]*)|(.*)$')
            if not last then return s end
            s.last, s.flight, s.claim, s.holder = tonumber(last), tonumber(flight), claim, holder
            for rank, kind, level, due in string.gmatch(queue, '(%d+):(%a)(%d):(%d+)') do
              s.queue[#s.queue + 1] = {rank = tonumber(rank), kind = kind, level = level, due = tonumber(due)}
            end
            return s
          end
          -- The time at which a slot without a job in flight has something to do: an end goes first.
          local function due(s)
            local first = s.queue[1]
            if not first then return now + \(milliseconds(lifetime)) end
            return first.kind == 'e' and first.due <= now and 1 or first.due
          end
          function S.keep(scope, s, list)
            if s.flight == 0 and #s.queue == 0 and S.isOrdered(scope) and S.pace(S.lane(scope)).distance == 0 then
              redis.call('HDEL', slots, scope)
              redis.call('ZREM', list, scope)
              return
            end
            write(scope, s)
            if s.flight > 0 then
              redis.call('ZADD', list, 'NX', text(now + \(milliseconds(review))), scope)
            else
              redis.call('ZADD', list, text(due(s)), scope)
            end
          end
          function S.field(scope, rank) return scope .. ' ' .. text(rank) end
          -- The job, and the fields of its result.
          function S.parts(value)
            local count, at = string.match(value, '^(%d+)\\n()')
            local fields = {}
            for i = 1, tonumber(count) or 0 do
              local length, from = string.match(value, '^(%d+)\\n()', at)
              at = from + length
              fields[i] = string.sub(value, from, at - 1)
            end
            return string.sub(value, at or 1), fields
          end
          function S.remove(scope, rank)
            redis.call('HDEL', states, S.field(scope, rank))
            redis.call('ZREM', waiting, S.field(scope, rank))
          end

          -- The pace of a lane. Without a distance it is none.
          function S.pace(lane)
            local record, pattern = redis.call('HGET', slots, lane) or '', '^(%d+) (%d+) (%d+) (%d+) (%d+)$'
            local distance, till, pause, refused, since = string.match(record, pattern)
            local function number(field) return tonumber(field or 0) end
            return {
              distance = number(distance), till = number(till), pause = number(pause), refused = number(refused),
              since = number(since),
            }
          end
          function S.setPace(lane, pace)
            if pace.distance == 0 and pace.till <= now then
              redis.call('HDEL', slots, lane)
              redis.call('ZREM', paced, lane)
            else
              local record = text(pace.distance) .. ' ' .. text(pace.till) .. ' ' .. text(pace.pause) .. ' '
              redis.call('HSET', slots, lane, record .. text(pace.refused) .. ' ' .. text(pace.since))
              redis.call('ZADD', paced, text(pace.till), lane)
            end
          end
          -- A 429. Several of one moment count once.
          function S.throttle(lane, asked)
            local pace, first, most = S.pace(lane), \(milliseconds(firstPause)), \(milliseconds(longestPause))
            -- The claim of this update has set the time of the next one. Only a longer one is that of another 429.
            local till = pace.till > now + pace.distance and pace.till or 0
            if pace.distance == 0 or now - pace.refused >= \(milliseconds(burst)) then
              if pace.distance == 0 then
                pace.distance = asked > 0 and math.min(asked, first) or first
              else
                pace.distance = math.min(math.floor(pace.distance * \(widening)), most)
              end
              if pace.pause == 0 then
                pace.pause = asked > 0 and 0 or first
              elseif asked == 0 and pace.since <= pace.refused then
                -- No minute of acceptances since the last one.
                pace.pause = math.min(2 * pace.pause, most)
              end
              pace.refused, pace.since = now, now
            end
            pace.till = math.max(till, now + (asked > 0 and math.min(asked, \(milliseconds(longestAskedPause))) or pace.pause))
            S.setPace(lane, pace)
            return pace.till
          end
          -- `fixed`: the pause between two updates of a channel in ms; negative if it follows the responses.
          function S.accepted(lane, fixed)
            local pace = S.pace(lane)
            if pace.distance == 0 then return end
            if fixed >= 0 and string.sub(lane, 1, 1) == 'c' then
              pace.distance, pace.pause = 0, 0
            elseif now - pace.since >= 60000 then
              pace.distance, pace.since = math.floor(pace.distance * 0.9), now
              if pace.pause > 0 then pace.pause = math.max(math.floor(pace.pause * 0.9), \(milliseconds(firstPause))) end
              if pace.distance < \(milliseconds(shortestDistance)) then pace.distance, pace.pause = 0, 0 end
            else
              return
            end
            S.setPace(lane, pace)
          end

          -- Puts a job at its place among those that wait. Returns those that end, perhaps itself.
          local function insert(scope, s, new)
            local queue, rank, kind = s.queue, new.rank, new.kind
            if rank == s.flight then s.flight = 0 end
            if S.isOrdered(scope) then
              local place = #queue + 1
              while place > 1 do
                local other = queue[place - 1]
                local isFirst = kind == 'e'
                if isFirst == (other.kind == 'e') then isFirst = other.rank > rank end
                if not isFirst then break end
                place = place - 1
              end
              table.insert(queue, place, new)
              return {}
            end
            -- Rank 0 is unknown: an older version has claimed the job.
            if kind ~= 's' and (rank <= s.last and s.last > 0 or rank < s.flight) then return {new} end
            -- Only the jobs between two starts replace each other.
            local lower, upper = 0, math.huge
            for _, e in ipairs(queue) do
              if e.kind == 's' and kind == 's' and e.rank == rank then return {new} end
              if e.kind == 's' and e.rank < rank then lower = math.max(lower, e.rank) end
              if e.kind == 's' and e.rank > rank then upper = math.min(upper, e.rank) end
            end
            local ended, kept, place = {}, {}, 1
            for _, e in ipairs(queue) do
              local isEnded = false
              if kind ~= 's' and e.kind ~= 's' and e.rank > lower and e.rank < upper then
                if e.rank > rank then
                  if kind == 'u' or e.kind == 'e' then return {new} end
                else
                  isEnded = kind == 'e' or e.kind == 'u' or e.rank == rank
                end
              end
              if isEnded then
                ended[#ended + 1] = e
              else
                kept[#kept + 1] = e
                if e.rank < rank or e.rank == rank and e.kind == 's' then place = #kept + 1 end
              end
            end
            table.insert(kept, place, new)
            s.queue = kept
            return ended
          end
          -- Returns whether the job waits (nil: the slot is full), and the values of the others that end.
          function S.add(scope, list, new, value)
            local s, ended = S.read(scope), {}
            if #s.queue >= \(mostWaiting) and new.rank ~= s.flight then return nil, ended end
            local waits = true
            for _, e in ipairs(insert(scope, s, new)) do
              if e == new then
                waits = false
              else
                ended[#ended + 1] = redis.call('HGET', states, S.field(scope, e.rank)) or ''
                if e.rank ~= new.rank then S.remove(scope, e.rank) end
              end
            end
            if waits then
              redis.call('HSET', states, S.field(scope, new.rank), value)
              redis.call('ZADD', waiting, text(now), S.field(scope, new.rank))
            end
            S.keep(scope, s, list)
            return waits, ended
          end
          -- The job of this field waits no more. The next claim finds the slot as it is then.
          function S.withdraw(field)
            redis.call('HDEL', states, field)
            redis.call('ZREM', waiting, field)
            local scope, rank = string.match(field, '^(.*) (%d+)$')
            if not scope then return end
            local s = S.read(scope)
            for place, e in ipairs(s.queue) do
              if e.rank == tonumber(rank) then table.remove(s.queue, place) break end
            end
            write(scope, s)
          end
          -- The job in flight has ended.
          function S.free(scope, list, rank, isAccepted, fixed)
            local s = S.read(scope)
            if s.flight == rank then s.flight = 0 end
            if isAccepted then s.last = math.max(s.last, rank) end
            S.keep(scope, s, list)
            if isAccepted then S.accepted(S.lane(scope), fixed) end
          end
          -- Notes when a slot of the app has something to do, and returns the ms until then; -1 for never.
          function S.timed(list)
            local head = redis.call('ZRANGE', list, 0, 0, 'WITHSCORES')
            local field = '\\1' .. string.sub(list, #asides + 1)
            if #head == 0 then
              redis.pcall('HDEL', asides, field)
              return -1
            end
            redis.pcall('HSET', asides, field, text(tonumber(head[2])))
            return math.max(0, math.ceil(tonumber(head[2]) - now))
          end
          -- Without these rights, nothing is changed.
          function S.try(lists)
            redis.call('HLEN', slots) redis.call('HLEN', states) redis.call('HLEN', asides)
            redis.call('ZCARD', waiting) redis.call('ZCARD', paced)
            for _, list in ipairs(lists) do redis.call('ZCARD', list) end
            redis.call('HGET', slots, '') redis.call('ZRANGE', waiting, 0, 0)
          end
          -- Behind the first write.
          function S.tryWrites()
            redis.call('ZREM', waiting, '') redis.call('HDEL', states, '') redis.call('ZADD', waiting, 'XX', 0, '')
          end
          return S
        end

        """
}

/// Moves the jobs of an app that wait in slots and are due to a new chunk of the worker. The rest is as in `Claim`, whose call
/// this is with `slots`. `others` are the hashes of the chunks of other workers.
///
/// Replies as `Claim`: 0 (with the pauses, if any), the number of jobs, their crashes, 0, 0, the ms until the next slot is due
/// (-1: never, -2: not read), scope, claim and worker of each job that has been in flight for long, and in `at_most_once` the
/// jobs, which no chunk has.
enum SlotClaim {
    /// `keepsJobs` is 0 where Redis keeps only suspects in flight.
    enum Argument: String, CaseIterable { case chunk, count, bytes, pace, keepsJobs }

    static let script = Script(
        [.nothing, .workers, .worker, .chunks, .stats, .paused, .asides, .slots, .states, .waiting, .paced],
        more: ["jobs", "scope", "others"], arguments: Argument.allCases.map(\.rawValue),
        Lua.clock + Lua.pauses + Lua.ranks + Slots.functions + Lua.fence + """
            local paused, whole = nil, false
            if redis.call('EXISTS', KEYS.paused) > 0 then paused, whole = pauses(KEYS.paused) end
            if whole or state[3] and redis.call('HEXISTS', KEYS.chunks, state[3]) == 1 then
              return {with(paused, 0), 0, 0, 0, 0, -2, {}}
            end
            if redis.call('HEXISTS', KEYS.chunks, ARGV.chunk) == 1 or redis.call('EXISTS', KEYS.jobs) == 1 then
              return '\(Lua.Status.taken)'
            end
            local now, fixed, room = math.floor(clock()), tonumber(ARGV.pace), tonumber(ARGV.bytes)
            local S = slotsOf(KEYS.slots, KEYS.states, KEYS.waiting, KEYS.paced, KEYS.asides, now)
            S.try({KEYS.scope})
            local due = redis.call('ZRANGEBYSCORE', KEYS.scope, '-inf', now, 'LIMIT', 0, ARGV.count)
            local ended = now - \(Int(Slots.paceLifetime / .milliseconds(1)))
            local old = redis.call('ZRANGEBYSCORE', KEYS.paced, '-inf', ended, 'LIMIT', 0, 10)
            local isAlone = redis.call('HLEN', KEYS.chunks) == 0
            -- The lowest rank in the claims of other workers that are as they were claimed.
            local unread = math.huge
            for i = KEY.others, #due > 0 and #KEYS or 0 do
              for _, entry in ipairs(values(KEYS[i], redis.call('HKEYS', KEYS[i]))) do
                local letters = string.match(entry, '^%d:1+(%l+)$')
                unread = math.min(unread, letters and rankOf(letters) or math.huge)
              end
            end
            if #due > 0 then redis.call('ZSCORE', KEYS.waiting, '') end
            local function isBehindUnread(scope, rank)
              local since = unread < rank and tonumber(redis.call('ZSCORE', KEYS.waiting, S.field(scope, rank)) or '')
              return since and since <= now and now - since < \(Int(Slots.unreadWait / .milliseconds(1)))
            end
            redis.call('DEL', KEYS.nothing)
            redis.call('RPUSH', KEYS.nothing, '') redis.call('DEL', KEYS.nothing)
            redis.call('HSET', KEYS.worker, 'number', ARGV.number)
            S.tryWrites()
            local taken, jobs, size, level, paces, reviews, later, gone = {}, {}, 0, nil, {}, {}, {}, {}
            local function take(scope, s)
              local first, lane = s.queue[1], S.lane(scope)
              if first.due > now then later[scope] = first.due return end
              if first.level == '3' and not isAlone then later[scope] = now + 1000 return end
              local pace = paces[lane] or S.pace(lane)
              if pace.till > now then later[scope] = pace.till - (first.kind == 'e' and 1 or 0) return end
              if isBehindUnread(scope, first.rank) then
                later[scope] = now + \(Int(Slots.unreadInterval / .milliseconds(1)))
                return
              end
              if level and first.level ~= level or level == '3' then return end
              local value = redis.call('HGET', KEYS.states, S.field(scope, first.rank))
              local job = value and S.parts(value)
              if job and #jobs > 0 and size + #job > room then return end
              table.remove(s.queue, 1)
              taken[#taken + 1] = {scope, s, first.rank, job}
              if not job then return end
              jobs[#jobs + 1], size, level = job, size + #job, first.level
              s.flight, s.holder = first.rank, ARGV.worker
              s.claim = string.format('%.0f', ARGV.chunk * 256 + #jobs - 1)
              local distance = fixed >= 0 and string.sub(lane, 1, 1) == 'c' and fixed or pace.distance
              if distance > 0 then
                pace.till = now + distance
                paces[lane] = pace
              end
            end
            for _, scope in ipairs(due) do
              local s = S.read(scope)
              if s.flight > 0 then
                later[scope] = now + \(Int(Slots.review / .milliseconds(1)))
                for _, item in ipairs({scope, s.claim, s.holder}) do reviews[#reviews + 1] = item end
              elseif #s.queue > 0 then
                take(scope, s)
              elseif tonumber(s.claim) > now then
                later[scope] = tonumber(s.claim)
              elseif S.pace(S.lane(scope)).distance > 0 then
                -- The app has slots as long as one of its channels is paced: see the dispatcher.
                later[scope] = now + \(Int(Slots.lifetime / .milliseconds(1)))
              else
                gone[#gone + 1] = scope
              end
            end
            local keeps = ARGV.keepsJobs == '1'
            if #jobs > 0 and keeps then
              redis.call('RPUSH', KEYS.jobs, unpack(jobs))
              redis.call('HSET', KEYS.chunks, ARGV.chunk, level .. ':' .. string.rep('1', #jobs))
              if level == '3' then redis.call('HSET', KEYS.worker, 'alone', ARGV.chunk) end
            end
            for _, one in ipairs(taken) do
              local scope, s, rank = one[1], one[2], one[3]
              if s.flight > 0 then redis.call('ZREM', KEYS.scope, scope) end
              S.keep(scope, s, KEYS.scope)
              S.remove(scope, rank)
            end
            for lane, pace in pairs(paces) do S.setPace(lane, pace) end
            for scope, at in pairs(later) do redis.call('ZADD', KEYS.scope, string.format('%.0f', at), scope) end
            for _, scope in ipairs(gone) do
              redis.call('HDEL', KEYS.slots, scope)
              redis.call('ZREM', KEYS.scope, scope)
            end
            for _, lane in ipairs(old) do
              redis.call('HDEL', KEYS.slots, lane)
              redis.call('ZREM', KEYS.paced, lane)
            end
            if #jobs > 0 then
              redis.pcall('HINCRBY', KEYS.stats, 'aside_claimed', #jobs)
              -- Otherwise their settlement counts them.
              if keeps then redis.pcall('HINCRBY', KEYS.stats, 'claimed', #jobs) end
              redis.pcall('HINCRBY', KEYS.worker, 'claimed', #jobs)
            end
            return {with(paused, 0), #jobs, tonumber(level) or 0, 0, 0, S.timed(KEYS.scope), reviews, keeps and {} or jobs}
            """)
}

/// Ends the flight of a scope whose job is not in the chunk of its worker any more: it was taken over, or removed by an older
/// version. A job that comes back later has its rank, and is sent only if no newer one was.
///
/// Replies the ms until a slot of the app has something to do (-2: nothing was changed).
struct SlotReview: Equatable {
    var app: String
    var scope: [UInt8]
    /// As the record of the scope has them.
    var claim: ClaimID
    var holder: String

    enum Argument: String, CaseIterable { case scope, claim, holder, chunk, place }

    func write(_ argument: Argument, to out: inout [UInt8]) {
        switch argument {
        case .scope: out.appendArgument(scope)
        case .claim: out.appendArgument(claim.number)
        case .holder: out.appendArgument(holder)
        case .chunk: out.appendArgument(claim.chunk)
        case .place: out.appendArgument(claim.place)
        }
    }

    /// `holding` is the hash of the chunks of the worker.
    static let script = Script(
        [.nothing, .workers, .worker, .asides, .slots, .states, .waiting, .paced], more: ["scope", "holding"],
        arguments: Argument.allCases.map(\.rawValue),
        Lua.clock + Slots.functions + Lua.fence + """
            local S = slotsOf(KEYS.slots, KEYS.states, KEYS.waiting, KEYS.paced, KEYS.asides, math.floor(clock()))
            S.try({KEYS.scope})
            local s, entry = S.read(ARGV.scope), redis.call('HGET', KEYS.holding, ARGV.chunk)
            if s.flight == 0 or s.claim ~= ARGV.claim or s.holder ~= ARGV.holder then return -2 end
            if entry and string.byte(entry, ARGV.place + 3) == \(ChunkEntry.mark) then return -2 end
            redis.call('DEL', KEYS.nothing)
            S.tryWrites()
            redis.call('HSET', KEYS.worker, 'number', ARGV.number)
            s.flight = 0
            S.keep(ARGV.scope, s, KEYS.scope)
            return S.timed(KEYS.scope)
            """)
}

/// Returns jobs that wait in slots to the head of the list, the oldest in front, when the last worker stops: an older version
/// finds them there, and a later one by their ranks puts them into their slots again. At most 1,000 jobs, and about a megabyte.
///
/// Replies the number of jobs that are left, or -1 if other workers are registered that know slots.
enum SlotReturn {
    static let script = Script(
        [.nothing, .workers, .worker, .list, .holders, .stats, .asides, .slots, .states, .waiting, .paced],
        Lua.clock + Slots.functions + Lua.last + Lua.fence + """
            if not isLast(KEYS.workers, KEYS.holders, ARGV.worker) then return -1 end
            local S = slotsOf(KEYS.slots, KEYS.states, KEYS.waiting, KEYS.paced, KEYS.asides, math.floor(clock()))
            S.try({})
            redis.call('LLEN', KEYS.list)
            redis.call('DEL', KEYS.nothing)
            S.tryWrites()
            redis.call('HSET', KEYS.worker, 'number', ARGV.number)
            local moved, size = 0, 0
            while moved < 1000 and size < 1048576 do
              local field = redis.call('ZRANGE', KEYS.waiting, -1, -1)[1]
              if not field then break end
              local value = redis.call('HGET', KEYS.states, field)
              if value then
                local job = S.parts(value)
                redis.call('LPUSH', KEYS.list, job)
                moved, size = moved + 1, size + #job
              end
              S.withdraw(field)
            end
            return redis.call('ZCARD', KEYS.waiting)
            """)
}
