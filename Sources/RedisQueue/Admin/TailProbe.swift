/// Looks at the tail of one list and at places that an earlier look remembers, in one step of Redis: the readings from which
/// the age of the queue follows.
public struct TailProbe: Sendable {
    /// A larger job is not read: its bytes would be sent with the next question.
    public static let mostBytes = 64 << 10
    /// How many jobs more than the counters explain are searched for the anchor.
    private static let slack = 10_000

    /// A job that was at the tail.
    public struct Mark: Sendable, Equatable {
        /// Jobs that were pushed behind it until the last look.
        public var behind: Int
        /// The beginning of the SHA-1 of its bytes.
        public var digest: UInt64

        public init(behind: Int, digest: UInt64) { (self.behind, self.digest) = (behind, digest) }
    }

    public struct Question: Sendable, Equatable {
        /// The job at the tail at the last look; empty if there was none.
        public var anchor: [UInt8] = []
        /// The counters of the last look.
        public var counts = Counts()
        public var marks: [Mark] = []

        public init() {}
    }

    public struct Counts: Sendable, Equatable {
        public var length = 0
        public var claimed = 0
        public var released = 0
        public var recovered = 0
        /// Jobs that moved to the delayed ones, and those that are there.
        public var postponed = 0
        public var delayed = 0

        public init() {}

        /// Equal at two looks between which no job returned to the list, except from its producers.
        fileprivate var still: String { "\(released + recovered):\(postponed - delayed)" }
    }

    /// Where the anchor is.
    public enum Place: Sendable, Equatable {
        /// This many jobs were pushed behind it.
        case behind(Int)
        case missing
        /// Other jobs have the same bytes.
        case ambiguous
    }

    public struct Answer: Sendable, Equatable {
        public var counts = Counts()
        public var anchor = Place.missing
        /// The job at the tail; `nil` if there is none, or a large one.
        public var tail: [UInt8]?
        public var digest: UInt64 = 0
        /// For each mark of the question, whether it is at its place. Empty if the anchor was not found.
        public var matches: [Bool] = []

        public init() {}
    }

    private let keys: Keys

    public init(_ keys: Keys) { self.keys = keys }

    public func ask(_ question: Question, _ client: inout RedisClient) throws(RedisError) -> Answer {
        let before = question.counts
        var rest = [String(before.length &+ before.claimed), before.still, String(TailProbe.slack), String(TailProbe.mostBytes)]
        for mark in question.marks { rest += [String(mark.behind), TailProbe.text(of: mark.digest)] }
        let arguments = [question.anchor] + rest.map { Array($0.utf8) }
        let reply = try client.evaluate(TailProbe.script, [keys.list, keys.stats, keys.delayed], arguments)
        guard let answer = TailProbe.answer(reply) else { throw .notRedis("a tail of another form") }
        return answer
    }

    private static let digits = 12

    private static func text(of digest: UInt64) -> String {
        let text = String(digest, radix: 16)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }

    private static func answer(_ reply: RedisReply) -> Answer? {
        guard let items = reply.items, items.count >= 9 else { return nil }
        let numbers = items.prefix(6).map { $0.count ?? 0 }
        var answer = Answer()
        (answer.counts.length, answer.counts.claimed, answer.counts.released) = (numbers[0], numbers[1], numbers[2])
        (answer.counts.recovered, answer.counts.postponed, answer.counts.delayed) = (numbers[3], numbers[4], numbers[5])
        answer.anchor =
            switch items[6].integer ?? -1 {
            case -1: .missing
            case let behind where behind >= 0: .behind(Int(behind))
            default: .ambiguous
            }
        if let digest = items[7].text.flatMap({ UInt64($0, radix: 16) }) {
            (answer.tail, answer.digest) = (items[8].bytes, digest)
        }
        answer.matches = items.dropFirst(9).map { $0.integer == 1 }
        return answer
    }

    /// KEYS: Q, stats, delayed. ARGV: the anchor, length and claimed jobs of the last look together, its stillness, the slack,
    /// the most bytes of a job, then for each mark the jobs behind it and its digest.
    ///
    /// Without returned jobs, the counters tell how many jobs were pushed behind the anchor, and a look at that place confirms
    /// it. Otherwise the list is searched from the tail.
    private static let script = """
        local length = redis.call('LLEN', KEYS[1])
        local stats = redis.call('HMGET', KEYS[2], 'claimed', 'released', 'recovered', 'retried', 'postponed', 'aside_claimed',
          'aside_released')
        for i = 1, 7 do stats[i] = tonumber(stats[i]) or 0 end
        -- What moves to a side list has left Q, and what is claimed from there was not in it.
        stats[1], stats[2] = stats[1] - stats[6], stats[2] - stats[7]
        local delayed = redis.call('ZCARD', KEYS[3])
        local function digest(job) return string.sub(redis.sha1hex(job), 1, \(digits)) end
        local function at(behind) return redis.call('LRANGE', KEYS[1], -1 - behind, -1 - behind)[1] end
        local anchor, behind = ARGV[1], -1
        if anchor ~= '' and length > 0 then
          local most = length + stats[1] - tonumber(ARGV[2])
          local still = string.format('%.0f:%.0f', stats[2] + stats[3], stats[4] + stats[5] - delayed)
          if most >= 0 and most < length and still == ARGV[3] and at(most) == anchor then
            behind = most
          else
            local range = math.max(0, most) + 1 + tonumber(ARGV[4])
            local places = redis.call('LPOS', KEYS[1], anchor, 'RANK', -1, 'COUNT', 2, 'MAXLEN', range)
            if #places == 1 then behind = length - 1 - places[1] elseif #places > 1 then behind = -2 end
          end
        end
        local tail, name = length > 0 and at(0), false
        if tail and #tail <= tonumber(ARGV[5]) then name = digest(tail) else tail = false end
        local out = {length, stats[1], stats[2], stats[3], stats[4] + stats[5], delayed, behind, name, tail}
        if behind >= 0 then
          for i = 6, #ARGV, 2 do
            local place = behind + tonumber(ARGV[i])
            local job = place < length and at(place)
            out[#out + 1] = job and digest(job) == ARGV[i + 1] and 1 or 0
          end
        end
        return out
        """
}
