/// What is answered to which share of the valid requests. A pure value: `ScriptPlayer` plays it.
public struct Script: Sendable, Equatable {
    /// A share of the requests, or, with `failTimes`, of the tokens.
    public struct Share: Sendable, Equatable {
        public var answer: Answer
        /// 0 to 1.
        public var fraction: Double

        public init(_ answer: Answer, _ fraction: Double) {
            self.answer = answer
            self.fraction = fraction
        }
    }

    /// An answer for the request of a number, the first valid one being 1.
    public struct Turn: Sendable, Equatable {
        public var number: Int
        /// Every so many requests, not once.
        public var repeats: Bool
        public var answer: Answer

        public init(_ number: Int, repeats: Bool = false, _ answer: Answer) {
            self.number = number
            self.repeats = repeats
            self.answer = answer
        }

        func isDue(at count: Int) -> Bool { repeats ? count % max(number, 1) == 0 : count == number }
    }

    /// Successive answers for each token that begins with `prefix`, then whatever the rest of the script says.
    public struct TokenPlan: Sendable, Equatable {
        /// Hex digits in lower case; empty is every token.
        public var prefix: String
        public var answers: [Answer]
        /// The last answer is given for ever.
        public var repeatsLast: Bool

        public init(prefix: String, answers: [Answer], repeatsLast: Bool = false) {
            self.prefix = prefix.lowercased()
            self.answers = answers
            self.repeatsLast = repeatsLast
        }
    }

    /// The same seed, with requests in the same order, gives the same answers.
    public var seed: UInt64
    /// Drawn anew for every request; of several, at most one applies.
    public var failures: [Share]
    /// When set, `failures` hit a share of the tokens instead, each for its first so many attempts.
    public var failTimes: Int?
    /// 0 to 1: the share of tokens that are 410 `Unregistered`, always the same ones.
    public var deadShare: Double
    /// Drawn anew for every answer, good or bad.
    public var latency: ClosedRange<Duration>?
    /// The first whose prefix fits applies.
    public var tokenPlans: [TokenPlan]
    /// Go before everything but plans for single tokens; of several that are due, the first applies.
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

    /// Accepts everything at once.
    var isPlain: Bool { failures.isEmpty && deadShare == 0 && latency == nil && tokenPlans.isEmpty && turns.isEmpty }
}
