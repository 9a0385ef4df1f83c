/// Registers a worker, also again after a lost connection, under a connection number higher than any before.
///
/// Replies `{'NUMBER', n, epoch, settled, chunks}`, as below, and does nothing when the record of W cannot be continued: n is
/// not lower than this number, another process with the same memory has registered under n, or the record has another
/// identity or later settlements. Another process then uses this name (a cloned machine, a process that returned to an
/// earlier state), or the record is damaged. The record of a takeover cannot be continued either if W had registered under
/// this or a later number: its settlements may have the numbers of other ones here. Then n is empty.
///
/// Otherwise replies present (1 or 0), the last settlement that is stored, also when this worker was among the last to be
/// reaped (-1: none), the epoch: the random number that was stored first in this data set (another one: Redis was emptied),
/// the kind of the recovered jobs, when `delayed` is due (with the pauses and side lists, if any), the number of dead
/// letters where they have no maximum (else 0), the same for feedback, the chunks of this worker with their entries, the
/// chunks that were taken over (`-`: W was not reaped, `*`: it was reaped by a worker of 0.2, else numbers), the number
/// of jobs that wait or were ever claimed in this data set with the tokens of all campaigns, and all workers with their
/// counters.
///
/// `emptied` and `rolled_back` of `stats` are the times, in milliseconds since 1970, at which a worker that had been registered
/// found that Redis was emptied, or lacked settlements that it had confirmed: `audit` reads them.
///
/// A reply may be lost. The stored settlement and the chunks that were taken over are therefore kept as fields of worker:W
/// (`known`, `taken`), and replied until the worker has read a reply of the registration `since` or a later one.
struct Registration: Equatable {
    var counter: Int64
    /// The last settlement that this worker knows as applied.
    var confirmed: UInt64
    /// Whether it was registered before.
    var isExpected: Bool
    /// The last settlement that has a number.
    var sealed: UInt64 = 0
    /// The number of the last registration whose reply was read.
    var answered: Int64 = 0

    enum Argument: String, CaseIterable {
        /// `epoch` is a random number, and the maxima are 0 for a list without one.
        case counter, confirmed, isExpected, epoch, deadLetterMax, feedbackMax
        /// 0 for `at_most_once`, whose pops give no ranks to the list.
        case keepsJobs
        /// Of the process.
        case identity
        case sealed, answered
        /// The numbers of this and of the later registrations, with a blank around each.
        case registrations
        /// Names and values of fields of worker:W.
        case fields
    }

    private static let foreign = "NUMBER"

    static let script = Script(
        [
            .nothing, .workers, .worker, .chunks, .stats, .once, .twice, .thrice, .list, .delayed, .dead, .feedback, .results,
            .paused, .holders, .asides,
        ],
        arguments: Argument.allCases.map(\.rawValue),
        Lua.clock + Lua.due + Lua.pauses + Lua.asides + Lua.waiting + Lua.counters + """
            local listed = redis.call('LLEN', KEYS.list)
            local jobs = listed + redis.call('ZCARD', KEYS.delayed)
            redis.call('HLEN', KEYS.chunks)
            for i = KEY.once, KEY.thrice do jobs = jobs + redis.call('LLEN', KEYS[i]) end
            local letters = redis.call('LLEN', KEYS.dead)
            local notes = redis.call('LLEN', KEYS.feedback)
            if KEYS.results ~= KEYS.nothing then redis.call('XLEN', KEYS.results) end
            local epoch, paused = redis.call('HGET', KEYS.stats, 'born'), asides(KEYS.asides, (pauses(KEYS.paused)))
            local present, own = redis.call('ZSCORE', KEYS.workers, ARGV.worker), math.floor(tonumber(ARGV.number))
            local state = redis.call('HMGET', KEYS.worker, 'number', 'settled', 'identity', 'since', 'known', 'taken')
            local stored, since, lowest, taken = state[2], state[4], state[5], state[6] or '-'
            if not stored then
              stored = redis.call('HGET', KEYS.stats, 'reaped:' .. ARGV.worker)
              since, lowest, taken = nil, nil, '-'
              if stored then
                taken = '*'
                for _, field in ipairs(redis.call('HKEYS', KEYS.stats)) do
                  local name, number, least, chunks = string.match(field, '^taken:([^|]*)|(%d*)|(%-?%d*)|([%d,]*)$')
                  if name == ARGV.worker then since, lowest, taken = number, least, chunks end
                end
              end
            end
            local last = tonumber(stored or -1) or math.huge
            local isForeign = last > tonumber(ARGV.sealed) or not state[1] and (tonumber(since) or 0) >= own
            if state[1] then
              isForeign = isForeign or math.floor(tonumber(state[1]) or math.huge) >= own
              isForeign = isForeign or state[3] and state[3] ~= ARGV.identity
              if string.find(state[1], '.', 1, true) and (tonumber(state[1]) or 0) >= tonumber(ARGV.answered) then
                isForeign = isForeign or not string.find(ARGV.registrations, ' ' .. state[1] .. ' ', 1, true)
              end
            end
            local function chunks()
              local entries = {}
              for _, number in ipairs(redis.call('HKEYS', KEYS.chunks)) do
                table.insert(entries, number)
                table.insert(entries, redis.call('HGET', KEYS.chunks, number))
              end
              return entries
            end
            if isForeign then return {'\(Registration.foreign)', state[1] or '', epoch or '', stored or '-1', chunks()} end
            redis.call('HLEN', KEYS.holders)
            redis.call('DEL', KEYS.nothing)
            local known = stored or '-1'
            if (tonumber(since or 0) or 0) > tonumber(ARGV.answered) then
              if (tonumber(lowest) or math.huge) < last then known = lowest end
            else
              since = string.format('%d', own)
              if state[2] then taken = '-' end
            end
            local settled = ARGV.confirmed
            if last > tonumber(settled) then settled = stored end
            redis.call('HSET', KEYS.worker, 'number', ARGV.number, 'settled', settled, 'identity', ARGV.identity, 'since', since,
              'known', known, 'taken', taken, 'beat', string.format('%d', math.floor(clock())), unpack(ARGV, ARG.fields))
            redis.call('HSET', KEYS.holders, ARGV.worker, '2')
            redis.call('ZADD', KEYS.workers, ARGV.counter, ARGV.worker)
            if not epoch then
              epoch = ARGV.epoch
              -- Ranks are higher than those of a data set that was lost: see `Scope.rank`.
              redis.call('HSET', KEYS.stats, 'born', epoch, 'rank', string.format('%.0f', clock() * 1000))
              if ARGV.isExpected == '1' then
                redis.pcall('HSET', KEYS.stats, 'emptied', string.format('%d', math.floor(clock())))
              end
            elseif ARGV.isExpected == '1' and not present and taken ~= '-' then
              redis.pcall('HINCRBY', KEYS.stats, 'fenced', 1)
            end
            if ARGV.isExpected == '1' and math.max(last, 0) < (tonumber(ARGV.confirmed) or 0) then
              redis.pcall('HSET', KEYS.stats, 'rolled_back', string.format('%d', math.floor(clock())))
            end
            -- If Redis went back to an earlier state, workers hold ranks that it would give again. The jobs that are in the list
            -- now get the ranks that they would have had, and later ones higher ranks than those: see `Claim`.
            local ranks = redis.call('HMGET', KEYS.stats, 'rank', 'old_jobs')
            local rank = tonumber(ranks[1] or '')
            if rank then
              local old = tonumber(ranks[2] or '') or 0
              if ARGV.keepsJobs == '0' or listed == 0 then
                redis.pcall('HDEL', KEYS.stats, 'old_jobs')
              elseif old <= 0 then
                redis.pcall('HSET', KEYS.stats, 'old_jobs', listed, 'old_rank', ranks[1])
              elseif old > listed then
                redis.pcall('HSET', KEYS.stats, 'old_jobs', listed)
              end
              redis.pcall('HSET', KEYS.stats, 'rank', string.format('%.0f', math.max(rank + listed, clock() * 1000)))
            end
            local answer = {present and 1 or 0, known, epoch, waiting(KEYS.once, KEYS.twice, KEYS.thrice)}
            answer[5] = with(paused, due(KEYS.delayed))
            answer[6] = ARGV.deadLetterMax == '0' and letters or 0
            answer[7] = ARGV.feedbackMax == '0' and notes or 0
            answer[8] = chunks()
            answer[9] = taken
            answer[10] = jobs
            for _, count in ipairs(redis.call('HMGET', KEYS.stats, 'claimed', 'audiences')) do
              answer[10] = answer[10] + math.max(0, math.min(2 ^ 51, tonumber(count or '') or 0))
            end
            return counters(KEYS.workers, KEYS.holders, answer)
            """)

    enum Reply {
        case foreign(Foreign)
        case registered(Registered)

        init?(_ items: [RedisReply]) {
            if items.count == 5, items[0].text == Registration.foreign {
                guard let number = items[1].text, let epoch = items[2].text, let settled = items[3].text,
                    let chunks = Registration.chunks(items[4])
                else { return nil }
                self = .foreign(Foreign(number: number, epoch: epoch, settled: UInt64(settled), chunks: chunks))
                return
            }
            guard items.count >= 10, let settled = items[1].text.flatMap({ Int64($0) }), let epoch = items[2].text,
                let beat = Beat.Reply(recovered: items[3], due: items[4], counters: items.dropFirst(10)),
                let deadLetters = items[5].count, let feedback = items[6].count, let chunks = Registration.chunks(items[7]),
                let taken = items[8].text.map(TakenChunks.init), let jobs = items[9].count
            else { return nil }
            self = .registered(
                Registered(
                    settled: UInt64(exactly: settled), epoch: epoch, beat: beat,
                    lengths: [.deadLetters: deadLetters, .feedback: feedback], chunks: chunks, taken: taken, jobs: jobs))
        }
    }

    /// Numbers are exact in Lua below 2^53, and below it a `ClaimID` cannot overflow.
    private static let leastBadNumber: UInt64 = 1 << 53

    /// Fields that are not the number of a chunk are ignored.
    private static func chunks(_ reply: RedisReply) -> [UInt64: [UInt8]]? {
        guard var rest = reply.items?[...] else { return nil }
        var chunks: [UInt64: [UInt8]] = [:]
        while let field = rest.popFirst()?.text, let entry = rest.popFirst()?.bytes {
            if let number = UInt64(field), number < leastBadNumber { chunks[number] = entry }
        }
        return chunks
    }

    /// The record of this worker that another process uses, or that is damaged.
    struct Foreign {
        /// For the log.
        var number: String
        /// These are as in `Registered`.
        var epoch: String
        var settled: UInt64?
        var chunks: [UInt64: [UInt8]]
    }

    /// The chunks of this worker that another one has taken over.
    enum TakenChunks: Equatable {
        case these(Set<UInt64>)
        /// This worker was taken over by one of 0.2, which does not record chunks.
        case unknown

        init(_ text: String) {
            self = text == "*" ? .unknown : .these(Set(text.split(separator: ",").compactMap { UInt64($0) }))
        }
    }

    struct Registered {
        /// The last settlement that Redis has stored for this worker, if any.
        var settled: UInt64?
        /// The mark of the data set: another one after Redis was emptied.
        var epoch: String
        var beat: Beat.Reply
        /// The numbers of records; 0 where there is a maximum.
        var lengths: [RecordList: Int]
        /// The entries of the worker's chunks, by their numbers.
        var chunks: [UInt64: [UInt8]]
        var taken: TakenChunks
        /// The number of jobs that wait or were ever claimed in this data set.
        var jobs: Int
    }
}
