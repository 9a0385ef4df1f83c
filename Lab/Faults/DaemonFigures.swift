/// The load and the speed of the daemons in a fault: the highest figure of all daemons.
public struct DaemonFigures: Sendable, Equatable {
    /// The share of one processor while a daemon had nothing to do: in the fault if no work is possible in it, and in every row
    /// at the end, when all jobs are settled.
    public var idleShare: Double?
    /// The longest turn of the dispatcher: for this long it handled no signal, response or reply.
    public var longestTurn: Duration?
    /// The time from SIGTERM to the exit.
    public var exitTime: Duration?

    static let mostIdleShare = 0.05
    static let mostTurn = Duration.milliseconds(250)
    /// The longest time from the end of `drain_timeout` to the exit.
    static let mostBeyondDrain = Duration.seconds(5)

    /// The bounds that these figures exceed; the bound of `exitTime` depends on `drain_timeout`.
    ///
    /// - Parameter judgesTurns: whether no reason for a long turn is known.
    func excesses(judgesTurns: Bool) -> [String] {
        var excesses: [String] = []
        if let share = idleShare, share > Self.mostIdleShare {
            excesses.append("gaplessd used \(Int(share * 100)) % of a processor while it had nothing to do")
        }
        if judgesTurns, let turn = longestTurn, turn > Self.mostTurn {
            excesses.append("a turn of the dispatcher took \(turn); at most \(Self.mostTurn) are allowed")
        }
        return excesses
    }

    mutating func add(idleShare share: Double) { idleShare = max(idleShare ?? 0, share) }
    mutating func add(turn: Duration) { longestTurn = max(longestTurn ?? .zero, turn) }
    mutating func add(exitTime time: Duration) { exitTime = max(exitTime ?? .zero, time) }

    mutating func add(_ other: DaemonFigures) {
        if let share = other.idleShare { add(idleShare: share) }
        if let turn = other.longestTurn { add(turn: turn) }
        if let time = other.exitTime { add(exitTime: time) }
    }
}
