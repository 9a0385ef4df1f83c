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
