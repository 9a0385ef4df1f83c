/// Applies a batch of settlements, each only if this worker still holds its job: nothing happens twice, or to a job that
/// another worker has.
///
/// Batches are numbered one by one. A batch that was applied before is skipped, so that counters count it once. A batch that
/// is too early (its predecessor met NOSCRIPT) gets the reply `GAP` and is sent again, and so is one with a chunk or a launch
/// that Redis lacks. A batch that fails in the middle marks the steps that it has applied, so that they are skipped when it is
/// sent again. A result is added first, because it may fail for reasons that no trial finds.
///
/// Behind the arguments come the chunks, and then the steps, in front of them: x and the number of side lists, if there are
/// any. A step is: kind, number of the chunk, position, feedback record or '', count of results, results, for a kind from h to
/// c in upper case the number of a side list that takes the place of the list, and by kind:
///
///     a  nothing                acknowledged
///     r  due, job               retry; due is a time in ms, or +ms from now
///     p  due, job               not_before; a due time that has passed becomes the next second: the worker's clock is behind
///     d  record                 dead letter
///     e  record                 dead letter of an expired job
///     D  record, field, job     dead letter, with the job (given in at_most_once) in the hash of large jobs; E as e
///     h  job (at_most_once)     back to the head of the list; steps of this kind have the last claimed first
///     t  job (at_most_once)     to the tail of the list
///     u  job                    replaced by this job at the head of the list; ordered as h
///     v  job                    replaced by this job at the tail of the list
///     s  k, k jobs              replaced by these parts at the head of the list
///     c  k, text, text, k times first and last byte
///                               replaced by k parts of it at the head of the list, each between the two texts
///     k  slot, scope, rank, event, crashes, due or '', pause after a 429 or '', kind, job
///                               into the slot of its scope (`Slots`), which counts as this kind; the job as in `states`
///
/// Behind the step of a job from a slot follow f, slot, scope and rank: the flight of the scope ends. A slot is the number of a
/// sorted set of `y`: y, the number of these sets, and the pause between two updates of a channel in ms (-1: as APNs asks for)
/// stand in front of the steps, behind x.
///
/// Replies 1 (0: skipped), the number of trimmed dead letters, when `delayed` is due (-2: not read), the number of dead
/// letters (0: none was added, or there is a maximum), the same two numbers for feedback, and with slots the ms until one of each
/// sorted set has something to do (-1: never).
struct SettleBatch: Equatable {
    /// 0 until it is sealed.
    var sequence: UInt64 = 0
    private(set) var ids: [ClaimID] = []
    /// Those with a step, and not with a plain acknowledgement.
    private var stepIDs: [ClaimID] = []
    /// The chunks of the jobs.
    private var tallies: [Tally] = []
    /// The chunks with their entries, as the script reads them.
    private(set) var chunks = Arguments()
    /// Everything else than plain acknowledgements, as the script reads it.
    private(set) var steps = Arguments()
    /// The apps to whose side lists jobs go.
    private(set) var asides: [String] = []
    /// The apps whose slots it changes.
    private(set) var slotApps: [String] = []
    private(set) var resent = 0
    var maybeDuplicates = 0
    /// The number of jobs that are replaced by their parts.
    private(set) var splits = 0
    /// The number of jobs to which APNs has responded. They are pushed twice if Redis returns to a state before this batch.
    private(set) var responded = 0
    private(set) var hasResults = false
    /// The change of the figures of campaigns.
    private(set) var campaigns: [CampaignCounts] = []
    /// The number of the last launch of a campaign that Redis must have.
    var launched: UInt64 = 0

    private struct Tally: Equatable {
        var chunk: UInt64
        /// The number of plain acknowledgements.
        var acknowledged = 0
        /// Whether a step reads a job.
        var readsList = false
        /// Whether Redis is to keep only the jobs in flight.
        var isCompacted = false
        /// Whether the batch removes, reads or compacts the list.
        var usesList = false
    }

    /// A batch is full beyond either. 256 chunks are far below the 8,000 values that Lua can unpack at once.
    static let mostJobs = 256
    static let mostBytes = 1 << 20

    var isEmpty: Bool { ids.isEmpty && maybeDuplicates == 0 && campaigns.isEmpty }
    var isFull: Bool { ids.count >= SettleBatch.mostJobs || steps.bytes.count >= SettleBatch.mostBytes }

    /// Adds an acknowledgement without feedback and result.
    ///
    /// - Parameter campaign: of a token.
    mutating func addAcknowledgement(_ id: ClaimID, ofCampaign campaign: String? = nil) {
        responded += 1
        if let campaign { campaigns[index(ofCampaign: campaign)].sentOne() }
        ids.append(id)
        tallies[tally(of: id.chunk)].acknowledged += 1
    }

    /// Returns the index of a chunk, which is nearly always one of the last.
    private mutating func tally(of chunk: UInt64) -> Int {
        if let index = tallies.lastIndex(where: { $0.chunk == chunk }) { return index }
        tallies.append(Tally(chunk: chunk))
        return tallies.count - 1
    }

    /// - Parameter job: its bytes, if Redis does not keep them (`at_most_once`).
    ///   - level: the number of crashes at which it was in flight.
    mutating func add(_ settlement: Settlement, job: [UInt8]?, level: UInt8 = 0) {
        resent += max(0, settlement.resends)
        if let outcome = settlement.campaign { count(outcome) }
        if case .ack = settlement.effect, settlement.scope == nil, settlement.feedback == nil, settlement.result == nil {
            return addAcknowledgement(settlement.id)
        }
        ids.append(settlement.id)
        stepIDs.append(settlement.id)
        let tally = tally(of: settlement.id.chunk)
        switch settlement.effect {
        case .release, .split, .deadLetter(_, _, storingJobUnder: .some): tallies[tally].readsList = true
        case .ack, .delay, .deadLetter, .replace, .slot: break
        }
        switch settlement.effect {
        case .ack, .delay(_, _, isRetry: true), .deadLetter: responded += 1
        case .slot(let entry) where entry.count == .retried: responded += 1
        case .split: splits += 1
        case .delay, .release, .replace, .slot: break
        }
        writeHead(of: settlement, isJobGiven: job != nil)
        switch settlement.effect {
        case .ack: break
        case .delay(let job, let due, _):
            steps.append(SettleBatch.text(of: due))
            steps.append(job)
        case .deadLetter(let record, _, let field):
            steps.append(record)
            if let field {
                steps.append(field)
                steps.append(job ?? [])
            }
        case .release: steps.append(job ?? [])
        case .replace(let replacement, _): steps.append(replacement)
        case .split(let parts): write(parts, of: job)
        case .slot(let entry): write(entry, level: level)
        }
        if let scope = settlement.scope {
            steps.append("f")
            steps.append(1 + slotApps.index(adding: scope.app))
            steps.append(scope.field)
            steps.append(scope.rank)
        }
    }

    private mutating func write(_ entry: SlotEntry, level: UInt8) {
        steps.append(1 + slotApps.index(adding: entry.scope.app))
        steps.append(entry.scope.field)
        steps.append(entry.scope.rank)
        steps.append(entry.scope.event.rawValue)
        steps.append(Int(level))
        steps.append(entry.due.map(SettleBatch.text) ?? "")
        steps.append(entry.throttle.map { String(max(0, Int(min($0, Slots.longestAskedPause) / .milliseconds(1)))) } ?? "")
        steps.append(entry.count.rawValue)
        var value = Array("\(entry.superseded.count)\n".utf8)
        for part in entry.superseded.texts { value += Array("\(part.count)\n".utf8) + part }
        steps.append(value + entry.job)
        if !entry.superseded.isEmpty { hasResults = true }
    }

    mutating func count(_ outcome: CampaignOutcome) { campaigns[index(ofCampaign: outcome.campaign)].add(outcome) }

    /// Returns the index of a campaign, which is nearly always the last one.
    private mutating func index(ofCampaign id: String) -> Int {
        if let index = campaigns.lastIndex(where: { $0.campaign == id }) { return index }
        campaigns.append(CampaignCounts(of: id))
        return campaigns.count - 1
    }

    /// Removes the plain acknowledgements of these jobs, and returns the number of these jobs in the batch.
    mutating func withdraw(_ gone: Set<ClaimID>) -> Int {
        let found = ids.filter(gone.contains)
        for id in found where !stepIDs.contains(id) {
            tallies[tally(of: id.chunk)].acknowledged -= 1
            responded -= 1
        }
        return found.count
    }

    /// Writes the entries of the chunks after the batch. Batches are addressed in the order of their numbers, and again after a
    /// lost connection.
    ///
    /// - Parameters:
    ///   - chunks: which the batch compacts besides.
    ///   - entry: the entry of a chunk: empty when no job is left in flight, and `nil` where Redis keeps no chunk.
    mutating func address(compacting more: [UInt64], entry: (UInt64) -> [UInt8]?) {
        for chunk in more { tallies[tally(of: chunk)].isCompacted = true }
        chunks = Arguments(reservingBytes: 32 * tallies.count)
        for index in tallies.indices {
            let tally = tallies[index]
            let entry = entry(tally.chunk)
            for part in ChunkArgument.allCases {
                switch part {
                case .chunk: chunks.append(tally.chunk)
                case .entry: if let entry { chunks.append(entry) } else { chunks.append("-") }
                case .acknowledged: chunks.append(tally.acknowledged)
                }
            }
            tallies[index].usesList = entry.map { $0.isEmpty || tally.readsList || tally.isCompacted } ?? false
        }
    }

    /// The chunks whose lists the batch removes, reads or compacts.
    var lists: some Collection<UInt64> { tallies.lazy.filter { $0.usesList }.map { $0.chunk } }

    /// The chunks of which Redis is to keep only the jobs in flight.
    var compacted: [UInt64] { tallies.filter(\.isCompacted).map(\.chunk) }

    /// - Parameter job: its bytes, if Redis does not keep them.
    private mutating func write(_ parts: JobParts, of job: [UInt8]?) {
        if job != nil || !parts.texts.isEmpty {
            let texts = parts.parts(of: job ?? [])
            steps.append(texts.count)
            for text in texts { steps.append(text) }
            return
        }
        steps.append(parts.ranges.count)
        steps.append(parts.prefix)
        steps.append(parts.suffix)
        for range in parts.ranges {
            // Lua counts from 1, and the last byte is included.
            steps.append(range.lowerBound + 1)
            steps.append(range.upperBound)
        }
    }

    private mutating func writeHead(of settlement: Settlement, isJobGiven: Bool) {
        let kind =
            switch settlement.effect {
            case .ack: "a"
            case .delay(_, _, let isRetry): isRetry ? "r" : "p"
            case .deadLetter(_, let isExpired, nil): isExpired ? "e" : "d"
            case .deadLetter(_, let isExpired, _): isExpired ? "E" : "D"
            case .release(let toTail): toTail ? "t" : "h"
            case .replace(_, let toTail): toTail ? "v" : "u"
            case .split(let parts): isJobGiven || !parts.texts.isEmpty ? "s" : "c"
            case .slot: "k"
            }
        steps.append(settlement.aside == nil ? kind : kind.uppercased())
        steps.append(settlement.id.chunk)
        steps.append(settlement.id.place)
        steps.append(settlement.feedback ?? [])
        steps.append(settlement.result?.count ?? 0)
        if let result = settlement.result {
            hasResults = true
            steps.append(contentsOf: result)
        }
        if let aside = settlement.aside { steps.append(1 + asides.index(adding: aside)) }
    }

    private static func text(of due: Settlement.Due) -> String {
        switch due {
        case .at(let milliseconds): return String(milliseconds)
        case .after(let delay):
            let (seconds, attoseconds) = delay.components
            // A year is longer than any delay, and keeps the product far from overflow.
            let bounded = min(max(0, seconds), 366 * 86_400)
            return "+\(bounded * 1000 + max(0, attoseconds / 1_000_000_000_000_000))"
        }
    }

    // MARK: The script

    enum Argument: String, CaseIterable {
        case sequence
        /// 1, or 0 where Redis keeps only suspects in flight.
        case keepsJobs
        /// 0 for a list without a maximum.
        case deadLetterMax, feedbackMax, resultsMax
        case resent, maybeDuplicates, chunkCount, launched
        /// The numbers of the chunks to compact, with a blank around each.
        case compacted
    }

    /// The parts of each chunk, behind the arguments.
    enum ChunkArgument: String, CaseIterable {
        case chunk
        /// After the batch: '' when no job of it is left, '-' when Redis keeps none.
        case entry
        /// The number of plain acknowledgements in it.
        case acknowledged
    }

    /// The number of all arguments.
    var argumentCount: Int {
        Argument.allCases.count + chunks.count + (asides.isEmpty ? 0 : 2) + (slotApps.isEmpty ? 0 : 3) + steps.count
    }

    /// The arguments that the settings determine. They stand together.
    static func options(_ settings: QueueSettings) -> [UInt8] {
        var options = Arguments()
        for argument in Argument.allCases {
            switch argument {
            case .keepsJobs: options.append(settings.mode.keepsJobs ? 1 : 0)
            case .deadLetterMax: options.append(max(0, settings.deadLetterMax))
            case .feedbackMax: options.append(max(0, settings.feedbackMax))
            case .resultsMax: options.append(max(0, settings.resultsMax))
            case .sequence, .resent, .maybeDuplicates, .chunkCount, .launched, .compacted: break
            }
        }
        return options.bytes
    }

    /// - Parameter pace: the pause between two updates of a channel; `nil` follows the responses.
    func writeArguments(_ options: [UInt8], pace: Duration?, to out: inout [UInt8]) {
        for argument in Argument.allCases {
            switch argument {
            case .sequence: out.appendArgument(sequence)
            case .keepsJobs: out.append(contentsOf: options)
            case .deadLetterMax, .feedbackMax, .resultsMax: break  // Among the options.
            case .resent: out.appendArgument(resent)
            case .maybeDuplicates: out.appendArgument(maybeDuplicates)
            case .chunkCount: out.appendArgument(tallies.count)
            case .launched: out.appendArgument(launched)
            case .compacted:
                let chunks = tallies.reduce(into: "") { if $1.isCompacted { $0 += " \($1.chunk)" } }
                out.appendArgument(chunks.isEmpty ? "" : chunks + " ")
            }
        }
        out.append(contentsOf: chunks.bytes)
        if !asides.isEmpty {
            out.appendArgument("x")
            out.appendArgument(asides.count)
        }
        if !slotApps.isEmpty {
            out.appendArgument("y")
            out.appendArgument(slotApps.count)
            out.appendArgument(Slots.text(of: pace))
        }
        out.append(contentsOf: steps.bytes)
    }

    /// Rewrites the list of a chunk with the jobs in flight only: a settled place becomes empty, and those behind the last job in
    /// flight disappear, so that every other place stays where it is. The jobs are added before the old list is removed. Both
    /// commands are tried on a key that does not exist.
    private static let compact = """
        local function compact(list, entry, nothing)
          local length, jobs, last = redis.call('LLEN', list), {}, 0
          for place = 1, #(string.match(entry, '^..([01]*)') or '') do
            jobs[place] = ''
            if string.byte(entry, place + 2) == \(ChunkEntry.mark) then
              jobs[place] = redis.call('LRANGE', list, place - 1, place - 1)[1]
              if not jobs[place] then return end
              last = place
            end
          end
          redis.call('LTRIM', nothing, 0, 0)
          redis.call('RPUSH', list, unpack(jobs, 1, last))
          redis.call('LTRIM', list, length, -1)
        end

        """

    /// The jobs of a chunk that one command reads, if steps need one of them.
    private static let readTogether = 25

    /// `lists` are those of the chunks that the batch removes, reads or compacts, followed by the side lists of the batch and the
    /// sorted sets of its slots, with slots `slots`, `states`, `waiting` and `paced`, and with either `asides`.
    static let script = Script(
        [
            .nothing, .workers, .worker, .chunks, .stats, .delayed, .dead, .feedback, .list, .results, .large,
        ],
        more: ["lists"], arguments: Argument.allCases.map(\.rawValue) + ChunkArgument.allCases.map(\.rawValue),
        Lua.clock + Lua.due + compact + Lua.noted + Slots.functions + Lua.fence + """
            local sequence, settled = tonumber(ARGV.sequence), tonumber(state[2])
            if sequence <= settled then return {0, 0, -2, 0, 0, 0} end
            if sequence > settled + 1 or tonumber(state[5] or 0) < tonumber(ARGV.launched) then
              return '\(Lua.Status.gap)'
            end
            local guard = ARGV.keepsJobs == '1'
            local n = tonumber(ARGV.chunkCount)
            local at, sides, sets, fixed = ARG.chunk + 3 * n, 0, 0, -1
            if ARGV[at] == 'x' then at, sides = at + 2, tonumber(ARGV[at + 1]) end
            if ARGV[at] == 'y' then at, sets, fixed = at + 3, tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]) end
            -- The last keys before the side lists, the sets and their hashes.
            local lastSet = #KEYS - (sets > 0 and 5 or math.min(sides, 1))
            local lastSide = lastSet - sets
            local lastList, S = lastSide - sides, nil
            local numbers, known, kept = {}, {}, {}
            for i = 1, n do
              local chunk = 3 * (i - 1)
              numbers[i] = ARGV[ARG.chunk + chunk]
              kept[numbers[i]] = ARGV[ARG.entry + chunk] ~= '-'
            end
            if n > 0 then known = redis.call('HMGET', KEYS.chunks, unpack(numbers)) end
            -- Redis returned to a state before the claim: the worker puts the jobs back, and then sends the batch again.
            for i = 1, n do if guard and kept[numbers[i]] and not known[i] then return '\(Lua.Status.gap)' end end
            local now = 0
            if ARGV[at] then
              now = math.floor(clock())
              redis.call('ZCARD', KEYS.delayed) redis.call('LLEN', KEYS.dead) redis.call('LLEN', KEYS.feedback)
              redis.call('LLEN', KEYS.list)
              redis.call('HLEN', KEYS.large)
              if KEYS.results ~= KEYS.nothing then redis.call('XLEN', KEYS.results) end
              -- Jobs that Redis does not keep have no marks of applied steps: such a batch must not fail in the middle.
              for i = KEY.lists, guard and 0 or lastSide do redis.call('LLEN', KEYS[i]) end
              for i = lastList + 1, lastSide do redis.call('LLEN', KEYS[i]) end
              if sides > 0 then redis.call('HLEN', KEYS[#KEYS]) end
              if sets > 0 then
                S = slotsOf(KEYS[lastSet + 1], KEYS[lastSet + 2], KEYS[lastSet + 3], KEYS[lastSet + 4], KEYS[lastSet + 5], now)
                S.try({unpack(KEYS, lastSide + 1, lastSet)})
              end
            end
            redis.call('HLEN', KEYS.stats)
            redis.call('DEL', KEYS.nothing)
            if ARGV[at] then
              -- Each command is tried without an effect: a user who lacks a right repeats no step.
              redis.call('LRANGE', KEYS.nothing, 0, 0)
              redis.call('RPUSH', KEYS.nothing, '') redis.call('LPUSH', KEYS.nothing, '')
              if KEYS.results ~= KEYS.nothing then
                redis.call('DEL', KEYS.nothing)
                redis.call('XADD', KEYS.nothing, '*', '', '')
              end
              redis.call('DEL', KEYS.nothing)
              redis.call('ZADD', KEYS.delayed, 'XX', 0, '') redis.call('HDEL', KEYS.chunks, '')
              redis.call('HSET', KEYS.worker, 'settled', state[2])
              if S then S.tryWrites() end
            end

            -- Of the steps, and of the plain acknowledgements in chunks of this worker.
            local count, accepted, superseded = {a = 0, r = 0, p = 0, d = 0, e = 0, h = 0, x = 0}, 0, 0
            local maybe, held, new = tonumber(ARGV.maybeDuplicates), {}, 0
            for i = 1, n do
              local number, acknowledged = numbers[i], tonumber(ARGV[ARG.acknowledged + 3 * (i - 1)])
              if kept[number] then held[number] = known[i] else held[number] = not guard end
              if held[number] then accepted = accepted + acknowledged else maybe = maybe + acknowledged end
              if held[number] and not kept[number] then new = new + acknowledged end
            end
            -- The score and the member of a job in `delayed`.
            local function delayed(at, number, place, job)
              if string.sub(at, 1, 1) == '+' then
                at = string.format('%d', now + tonumber(at))
              elseif tonumber(at) <= now then
                at = string.format('%d', now + 1000)
              end
              return at, ARGV.worker .. ':' .. number .. ':' .. place .. '|' .. job
            end
            -- The applied steps, each by the place of its first argument.
            local applied, steps, delays, notes, left, gone, lists = {}, 0, false, 0, {}, {}, {}
            local returned = 0
            -- A step is applied: only its feedback and its counter are missing.
            local function finish(step, term)
              if ARGV[step + 3] ~= '' then
                redis.call('RPUSH', KEYS.feedback, ARGV[step + 3])
                notes = notes + 1
              end
              count[term] = count[term] + 1
              if string.find(ARGV[step], '^[htuvsc]$') then returned = returned + 1 end
              steps = steps + 1
              applied[steps] = step
            end
            -- What steps add to one key is one command. A command for each job would cost an app that fails thousands of
            -- commands per second.
            local groups = {}
            local function flush(group)
              if not group or #group.steps == 0 then return end
              redis.call(group.command, group.key, unpack(group.values))
              for i = 1, #group.steps, 2 do finish(group.steps[i], group.steps[i + 1]) end
              group.values, group.steps = {}, {}
            end
            local function add(command, key, step, term, first, second)
              local name = command .. key
              if not groups[name] then
                groups[name] = {command = command, key = key, values = {}, steps = {}}
                groups[#groups + 1] = groups[name]
              end
              local values, ends = groups[name].values, groups[name].steps
              values[#values + 1] = first
              values[#values + 1] = second
              ends[#ends + 1] = step
              ends[#ends + 1] = term
            end
            -- Reads a job of a chunk with its neighbours, which the next steps often need.
            local blocks = {}
            local function read(number, place)
              local first = place - place % \(readTogether)
              local name = number .. ':' .. first
              blocks[name] = blocks[name]
                or redis.call('LRANGE', KEYS.chunks .. ':' .. number, first, first + \(readTogether - 1))
              return blocks[name][place - first + 1]
            end
            local function addResult(fields)
              if #fields == 0 or KEYS.results == KEYS.nothing then return end
              for i = 1, #fields, 2 do
                if fields[i] == 'at' then fields[i + 1] = string.format('%d', math.floor(now / 1000)) end
              end
              redis.call('XADD', KEYS.results, 'MAXLEN', ARGV.resultsMax, '*', unpack(fields))
            end
            -- Puts a job into its slot, and returns its counter.
            local function keep(at, number, place)
              local scope, value, term = ARGV[at + 1], ARGV[at + 8], ARGV[at + 7]
              local due = ARGV[at + 5] == '' and now or tonumber(ARGV[at + 5])
              if string.sub(ARGV[at + 5], 1, 1) == '+' then due = now + due end
              if ARGV[at + 6] ~= '' then due = math.max(due, S.throttle(S.lane(scope), tonumber(ARGV[at + 6]))) end
              local new = {rank = tonumber(ARGV[at + 2]), kind = ARGV[at + 3], level = ARGV[at + 4], due = math.max(now, due)}
              local waits, ended = S.add(scope, KEYS[lastSide + ARGV[at]], new, value)
              for _, other in ipairs(ended) do
                local _, fields = S.parts(other)
                addResult(fields)
              end
              superseded = superseded + #ended
              if waits then return term end
              local job, fields = S.parts(value)
              if waits == nil then
                redis.call('ZADD', KEYS.delayed, delayed('+\(Int(Slots.overflowDelay / .milliseconds(1)))', number, place, job))
                delays = true
                return 'p'
              end
              addResult(fields)
              return 'x'
            end
            local function apply()
              local ARGV, KEYS, redis, held, kept, count, at = ARGV, KEYS, redis, held, kept, count, at
              while ARGV[at] do
                local step, kind, number, place = at, ARGV[at], ARGV[at + 1], ARGV[at + 2]
                local extras = tonumber(ARGV[at + 4])
                local first = at + 5
                at = first + extras
                local ours, job, isSettled, isLater, list = held[number], nil, false, false, KEYS.list
                if string.find(kind, '^[HTUVSC]$') then list, kind, at = KEYS[lastList + ARGV[at]], string.lower(kind), at + 1 end
                if ours and kept[number] then
                  isSettled = string.byte(ours, place + 3) ~= \(ChunkEntry.mark)
                  ours = not isSettled
                  if ours and string.find('ht', kind) then
                    job = read(number, place)
                    ours = job
                  elseif ours and string.find('DEc', kind) then
                    job = redis.call('LRANGE', KEYS.chunks .. ':' .. number, place, place)[1]
                    ours = job
                  end
                end
                if ours and extras > 0 then
                  redis.call('XADD', KEYS.results, 'MAXLEN', ARGV.resultsMax, '*', unpack(ARGV, first, first + extras - 1))
                end
                local term = kind
                if kind == 'r' or kind == 'p' then
                  if ours then
                    add('ZADD', KEYS.delayed, step, kind, delayed(ARGV[at], number, place, ARGV[at + 1]))
                    delays, isLater = true, true
                  end
                  at = at + 2
                elseif kind == 'd' or kind == 'e' then
                  if ours then redis.call('RPUSH', KEYS.dead, ARGV[at]) end
                  at = at + 1
                elseif kind == 'D' or kind == 'E' then
                  if ours then
                    redis.call('HSET', KEYS.large, ARGV[at + 1], job or ARGV[at + 2])
                    redis.call('RPUSH', KEYS.dead, ARGV[at])
                  end
                  at, term = at + 3, string.lower(kind)
                elseif kind == 'h' or kind == 't' then
                  if ours then add(kind == 'h' and 'LPUSH' or 'RPUSH', list, step, 'h', job or ARGV[at]) end
                  at, term, isLater = at + 1, 'h', ours
                elseif kind == 'u' or kind == 'v' then
                  if ours then add(kind == 'u' and 'LPUSH' or 'RPUSH', list, step, 'h', ARGV[at]) end
                  at, term, isLater = at + 1, 'h', ours
                elseif kind == 's' then
                  local parts = tonumber(ARGV[at])
                  if ours then
                    flush(groups['LPUSH' .. list])
                    for i = at + parts, at + 1, -1 do redis.call('LPUSH', list, ARGV[i]) end
                  end
                  at, term = at + parts + 1, 'h'
                elseif kind == 'c' then
                  local last = at + 2 + 2 * tonumber(ARGV[at])
                  if ours then
                    flush(groups['LPUSH' .. list])
                    for i = last, at + 4, -2 do
                      redis.call('LPUSH', list, ARGV[at + 1] .. string.sub(job, ARGV[i - 1], ARGV[i]) .. ARGV[at + 2])
                    end
                  end
                  at, term = last + 1, 'h'
                elseif kind == 'k' then
                  term = ours and keep(at, number, place) or 'h'
                  at = at + 9
                end
                if ARGV[at] == 'f' then
                  if ours then S.free(ARGV[at + 2], KEYS[lastSide + ARGV[at + 1]], tonumber(ARGV[at + 3]), term == 'a', fixed) end
                  at = at + 4
                end
                if isLater then
                  -- Its command follows.
                elseif ours then
                  finish(step, term)
                elseif isSettled then
                  -- An earlier run of this batch has applied the step.
                elseif term == 'a' or term == 'r' or term == 'd' or term == 'e' then
                  maybe = maybe + 1
                end
              end
              for _, group in ipairs(groups) do flush(group) end

              for i = 1, n do
                local number, entry = numbers[i], ARGV[ARG.entry + 3 * (i - 1)]
                if held[number] and entry == '' then
                  gone[#gone + 1] = number
                  lists[#lists + 1] = KEYS.chunks .. ':' .. number
                elseif held[number] and kept[number] then
                  left[#left + 1] = number
                  left[#left + 1] = entry
                end
              end
              if #left > 0 then redis.call('HSET', KEYS.chunks, unpack(left)) end
              if returned > 0 then
                redis.call('HSET', KEYS.worker, 'settled', ARGV.sequence, 'returned', ARGV.sequence)
              else
                redis.call('HSET', KEYS.worker, 'settled', ARGV.sequence)
              end
              if #gone > 0 then redis.call('HDEL', KEYS.chunks, unpack(gone)) end
            end

            local function add(key, name, by)
              if by > 0 then redis.pcall('HINCRBY', key, name, by) end
            end
            local function addSteps()
              for i = 1, guard and 0 or steps do
                if not kept[ARGV[applied[i] + 1]] then new = new + 1 end
              end
              add(KEYS.stats, 'claimed', new + superseded)
              add(KEYS.stats, 'aside_claimed', superseded)
              add(KEYS.stats, 'superseded', count.x + superseded)
              add(KEYS.stats, 'sent', count.a)
              add(KEYS.worker, 'sent', count.a)
              add(KEYS.stats, 'retried', count.r)
              add(KEYS.stats, 'postponed', count.p)
              add(KEYS.stats, 'dead', count.d)
              add(KEYS.stats, 'expired', count.e)
              add(KEYS.stats, 'released', count.h)
              add(KEYS.stats, 'aside_released', count.h - returned)
              for i = lastList + 1, lastSide do pcall(noted, KEYS[#KEYS], KEYS[i]) end
            end
            local isApplied, fault = pcall(apply)
            if not isApplied then
              -- The batch stays unsettled: the marks of the applied steps go, and all others stay.
              for i = 1, steps do
                local number, place = ARGV[applied[i] + 1], ARGV[applied[i] + 2]
                if kept[number] then
                  held[number] = string.sub(held[number], 1, place + 2) .. '0' .. string.sub(held[number], place + 4)
                end
              end
              for i = 1, n do
                if held[numbers[i]] and kept[numbers[i]] then redis.pcall('HSET', KEYS.chunks, numbers[i], held[numbers[i]]) end
              end
              redis.pcall('HSET', KEYS.worker, 'settled', state[2])
              if returned > 0 then redis.pcall('HSET', KEYS.worker, 'returned', ARGV.sequence) end
              new = 0
              addSteps()
              error(fault, 0)
            end
            if #lists > 0 then redis.call('DEL', unpack(lists)) end

            -- What follows can wait for a later batch: a failure has no influence on this one.
            if ARGV.compacted ~= '' then
              for i = 1, #left, 2 do
                local isWasteful = string.find(ARGV.compacted, ' ' .. left[i] .. ' ', 1, true)
                if isWasteful then pcall(compact, KEYS.chunks .. ':' .. left[i], left[i + 1], KEYS.nothing) end
              end
            end
            -- Drops the oldest elements. Returns their number, and the length of a list without a maximum.
            local function bound(list, most)
              local length = redis.call('LLEN', list)
              if most == 0 then return 0, length end
              if length <= most then return 0, 0 end
              local surplus, records = length - most, {}
              if list == KEYS.dead and redis.call('EXISTS', KEYS.large) == 1 then
                -- Each record is read: the rest follows with the next batches.
                surplus = math.min(surplus, 1000)
                records = redis.call('LRANGE', list, 0, surplus - 1)
              end
              redis.call('LTRIM', list, surplus, -1)
              for _, record in ipairs(records) do
                local stored = string.match(record, ', "job_field": "([^"\\\\]+)"')
                if stored then redis.pcall('HDEL', KEYS.large, stored) end
              end
              return surplus, 0
            end
            local function bounded(list, added, most)
              if added == 0 then return 0, 0 end
              local isBounded, dropped, length = pcall(bound, list, tonumber(most))
              if isBounded then return dropped, length end
              return 0, 0
            end
            local trimmed, letters = bounded(KEYS.dead, count.d + count.e, ARGV.deadLetterMax)
            local dropped, entries = bounded(KEYS.feedback, notes, ARGV.feedbackMax)
            local isDueKnown, ready = false, -2
            if delays then isDueKnown, ready = pcall(due, KEYS.delayed) end
            count.a = count.a + accepted
            addSteps()
            add(KEYS.stats, 'resent', tonumber(ARGV.resent))
            add(KEYS.stats, 'maybe_duplicate', maybe)
            add(KEYS.stats, 'trimmed', trimmed + dropped)
            local reply = {1, trimmed, isDueKnown and ready or -2, letters, dropped, entries}
            for i = lastSide + 1, lastSet do reply[#reply + 1] = S.timed(KEYS[i]) end
            return reply
            """)

    /// The change of a list of records by a batch.
    struct Growth {
        /// The number of records that were dropped because of the maximum.
        var trimmed = 0
        /// 0: none was added, or there is a maximum.
        var length = 0
    }

    struct Reply {
        var due: Lua.NextDue
        var deadLetters: Growth
        var feedback = Growth()
        /// When a slot has something to do, for each of `slotApps`.
        var slots: [Lua.NextDue] = []

        init?(_ items: [RedisReply]) {
            guard items.count >= 3, let trimmed = items[1].count, let due = items[2].integer else { return nil }
            self.due = Lua.NextDue(due)
            deadLetters = Growth(trimmed: trimmed, length: items.count > 3 ? items[3].count ?? 0 : 0)
            if items.count > 5 { feedback = Growth(trimmed: items[4].count ?? 0, length: items[5].count ?? 0) }
            slots = items.dropFirst(6).map { Lua.NextDue($0.integer ?? -2) }
        }
    }
}

extension [String] {
    /// Returns the index of an app, which is added if it is not there yet.
    fileprivate mutating func index(adding app: String) -> Int {
        if let index = firstIndex(of: app) { return index }
        append(app)
        return count - 1
    }
}
