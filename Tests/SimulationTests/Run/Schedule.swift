/// The updates of one channel by a rule alone, with a new state each second: no network, no crash, no daemon. It shows what the
/// rule costs, beside the ages that the daemon reaches on the same limits.
struct Schedule {
    enum Rule {
        /// The pause after a 429 is 15 s, doubles with each further one up to 120 s, a tenth shorter after each minute of
        /// acceptances, and is the distance between all updates.
        case pauses
        /// The same pause, which an acceptance ends, and this distance in seconds between updates.
        case distance(Double)
    }

    let rule: Rule
    /// The number of updates that each minute admits.
    let limits: [Int]
    /// A 429 says when the next minute begins.
    let hasRetryAfter: Bool
    private var pause = 0.0
    private var since = 0.0

    init(_ rule: Rule, _ limits: [Int], hasRetryAfter: Bool) {
        (self.rule, self.limits, self.hasRetryAfter) = (rule, limits, hasRetryAfter)
    }

    /// The age of the state that is shown, each second from the second minute on.
    mutating func ages() -> [Double] {
        let end = Double(60 * limits.count)
        var (time, shown, ages, minute, count) = (0.0, 0.0, [Double](), -1, 0)
        while time < end {
            if minute != Int(time / 60) { (minute, count) = (Int(time / 60), 0) }
            let isAccepted = count < limits[minute]
            if isAccepted { (count, shown) = (count + 1, time.rounded(.down)) }
            let next = max(time + wait(time, isAccepted), shown + 1)
            let first = Int(time.rounded(.up))
            for second in first..<max(first, Int(min(next, end).rounded(.up))) where second >= 60 {
                ages.append(Double(second) - shown)
            }
            time = next
        }
        return ages
    }

    private mutating func wait(_ time: Double, _ isAccepted: Bool) -> Double {
        switch (rule, isAccepted) {
        case (.pauses, true):
            if pause > 0 && time - since >= 60 { (pause, since) = (pause * 0.9 < 1 ? 0 : pause * 0.9, time) }
            return pause
        case (.distance(let distance), true):
            pause = 0
            return distance
        case (_, false):
            let asked = hasRetryAfter ? 60 - time.truncatingRemainder(dividingBy: 60) : nil
            pause = min(120, asked ?? (pause == 0 ? 15 : 2 * pause))
            since = time
            return pause
        }
    }
}
