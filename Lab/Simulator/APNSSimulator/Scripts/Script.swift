/// The answers to valid requests. `ScriptPlayer` applies it.
public struct Script: Sendable, Equatable {
    /// A share of the requests or, with `failTimes`, of the tokens.
    public struct Share: Sendable, Equatable {
        public var answer: Answer
        /// 0 to 1.
        public var fraction: Double

        public init(_ answer: Answer, _ fraction: Double) {
            self.answer = answer
            self.fraction = fraction
        }
    }

    /// An answer for a request by its number; the first valid request is 1.
    public struct Turn: Sendable, Equatable {
        public var number: Int
        /// The answer repeats every `number` requests.
        public var repeats: Bool
        public var answer: Answer

        public init(_ number: Int, repeats: Bool = false, _ answer: Answer) {
            self.number = number
            self.repeats = repeats
            self.answer = answer
        }

        func isDue(at count: Int) -> Bool { repeats ? count % max(number, 1) == 0 : count == number }
    }

    /// Successive answers for each token with a prefix. The rest of the script applies afterwards.
    public struct TokenPlan: Sendable, Equatable {
        /// Hex digits in lower case. Empty matches every token.
        public var prefix: String
        public var answers: [Answer]
        /// The last answer repeats without end.
        public var repeatsLast: Bool

        public init(prefix: String, answers: [Answer], repeatsLast: Bool = false) {
            self.prefix = prefix.lowercased()
            self.answers = answers
            self.repeatsLast = repeatsLast
        }
    }

    /// The same seed with the same order of requests gives the same answers.
    public var seed: UInt64
    /// Drawn for every request; at most one applies.
    public var failures: [Share]
    /// If set, `failures` apply to a share of the tokens: this number of first attempts of each fails.
    public var failTimes: Int?
    /// The share of tokens that always get 410 `Unregistered`, 0 to 1.
    public var deadShare: Double
    /// Drawn for every answer.
    public var latency: ClosedRange<Duration>?
    /// The first plan with a matching prefix applies.
    public var tokenPlans: [TokenPlan]
    /// The first due turn applies, before everything else of the script.
    public var turns: [Turn]

    public init(
        seed: UInt64 = 1, failures: [Share] = [], failTimes: Int? = nil, deadShare: Double = 0,
        latency: ClosedRange<Duration>? = nil, tokenPlans: [TokenPlan] = [], turns: [Turn] = []
    ) {
        self.seed = seed
        self.failures = failures
        self.failTimes = failTimes
        self.deadShare = deadShare
        self.latency = latency
        self.tokenPlans = tokenPlans
        self.turns = turns
    }

    /// Accepts every request immediately.
    var isPlain: Bool { failures.isEmpty && deadShare == 0 && latency == nil && tokenPlans.isEmpty && turns.isEmpty }
}

/// Applies a script: stores the position of each token.
struct ScriptPlayer {
    var script: Script {
        didSet {
            acceptsAll = script.isPlain
            if script.turns != oldValue.turns { requests = 0 }
            if script.seed != oldValue.seed { random = SeededRandom(seed: script.seed) }
        }
    }
    private var acceptsAll: Bool
    private var random: SeededRandom
    /// The plans of callers for single tokens, which precede the script. Answers in reverse order.
    private var plans: [[UInt8]: [Answer]] = [:]
    /// The number of answers that each token has received from its prefix plan.
    private var planned: [[UInt8]: Int] = [:]
    /// Number of valid requests since the script got its turns.
    private var requests = 0
    /// The number of failures of each token under `failTimes`.
    private var failed: [[UInt8]: Int] = [:]

    init(_ script: Script) {
        self.script = script
        acceptsAll = script.isPlain
        random = SeededRandom(seed: script.seed)
    }

    /// Replaces the rest of an earlier plan for `token`, in any case.
    mutating func plan(token: some Sequence<UInt8>, _ answers: [Answer]) {
        plans[ScriptPlayer.key(token)] = answers.isEmpty ? nil : answers.reversed()
    }

    /// Accepts every request and stores nothing.
    var isPlain: Bool { acceptsAll && plans.isEmpty }

    /// Returns whether there is a plan for the token with this key.
    func hasPlan(for key: [UInt8]) -> Bool { plans[key] != nil }

    mutating func answer(for token: some Sequence<UInt8>) -> Answer {
        if isPlain { return .accept }
        let key = ScriptPlayer.key(token)
        let turn = nextTurn()
        if let answer = nextPlanned(key) ?? turn ?? nextOfPrefix(key) { return answer }
        return delayed(scripted(key))
    }

    private mutating func nextTurn() -> Answer? {
        if script.turns.isEmpty { return nil }
        requests += 1
        return script.turns.first { $0.isDue(at: requests) }?.answer
    }

    private mutating func nextPlanned(_ key: [UInt8]) -> Answer? {
        guard !plans.isEmpty, let answer = plans[key]?.popLast() else { return nil }
        if plans[key]?.isEmpty == true { plans[key] = nil }
        return answer
    }

    private mutating func nextOfPrefix(_ key: [UInt8]) -> Answer? {
        guard let plan = script.tokenPlans.first(where: { key.starts(with: $0.prefix.utf8) }) else { return nil }
        let done = planned[key, default: 0]
        if done >= plan.answers.count { return plan.repeatsLast ? plan.answers.last : nil }
        planned[key] = done + 1
        return plan.answers[done]
    }

    private mutating func scripted(_ key: [UInt8]) -> Answer {
        if script.deadShare > 0, fate(of: key, salt: 1) < script.deadShare { return .usual(410) }
        if script.failures.isEmpty { return .accept }
        guard let limit = script.failTimes else { return chosen(by: random.fraction()) ?? .accept }
        guard let failure = chosen(by: fate(of: key, salt: 2)), failed[key, default: 0] < limit else { return .accept }
        failed[key, default: 0] += 1
        return failure
    }

    private func chosen(by draw: Double) -> Answer? {
        var sum = 0.0
        for share in script.failures {
            sum += share.fraction
            if draw < sum { return share.answer }
        }
        return nil
    }

    private mutating func delayed(_ answer: Answer) -> Answer {
        guard let latency = script.latency else { return answer }
        let spread = latency.upperBound - latency.lowerBound
        return .delay(latency.lowerBound + spread * random.fraction(), then: answer)
    }

    /// Returns a constant number in 0..<1 for each token: FNV-1a, mixed with the seed.
    private func fate(of key: [UInt8], salt: UInt64) -> Double {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in key { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return SeededRandom.fraction(SeededRandom.mix(hash &+ SeededRandom.mix(script.seed &+ salt)))
    }

    static func key(_ token: some Sequence<UInt8>) -> [UInt8] {
        token.map { (65...90).contains($0) ? $0 | 0x20 : $0 }
    }
}

/// SplitMix64. The same seed gives the same numbers on every machine.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return SeededRandom.mix(state)
    }

    /// Returns a uniform number in 0..<1.
    mutating func fraction() -> Double { SeededRandom.fraction(next()) }

    static func mix(_ value: UInt64) -> UInt64 {
        var mixed = value
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Converts the upper 53 bits, the precision of `Double`.
    static func fraction(_ bits: UInt64) -> Double { Double(bits >> 11) * 0x1p-53 }
}
