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
