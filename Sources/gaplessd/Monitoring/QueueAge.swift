import Platform
import RedisQueue

/// Computes the age of the job at the head of a list from one look per second at the list. Jobs contain no push time.
///
/// Each look marks the job at the tail. Nothing that happens at the head changes the number of jobs behind a mark; only pushes
/// to the tail do, and the marked job shows how many there were. A mark that is no longer at its place was claimed, so that the
/// head was pushed after it; the oldest mark that is at its place was pushed after the head. Between these two the age is
/// known. If the list shrinks by more jobs than were claimed, another program removed jobs: marks then count only where they are
/// found again, and the age is unknown until the two neighbours of the head are certain.
///
/// Every pushed job has a number: 1 for the first push after the first look.
struct QueueAge {
    private struct Mark {
        /// The number of its job.
        var number: Int
        var digest: UInt64
        /// The first and the last look at which it was the tail.
        var first: Instant
        var last: Instant
        /// Whether no foreign removal since has made its place doubtful.
        var isCertain = true
    }

    /// Marks whose places one look checks.
    private static let mostChecks = 24
    /// Claimed marks that are kept, for jobs that return to the head.
    private static let mostClaimed = 600
    /// Above this number every second mark of the older half is dropped.
    private static let mostMarks = 8192
    /// The longest time between the two neighbours of the head, absolute and as a share of the age.
    private static let tolerance = (time: Duration.milliseconds(2500), share: 0.01)

    /// In order of their numbers; those before `claimedMarks` are claimed.
    private var marks: [Mark] = []
    private var claimedMarks = 0
    /// The number of the last pushed job.
    private var pushed = 0
    /// Jobs at the head that were claimed before and returned.
    private var returned = 0
    /// The number of the last claims that may include them: the jobs that were in flight.
    private var reach = 0
    /// The number of them that may be retries: no push has their place in the list.
    private var returnedRetries = 0
    /// The jobs in flight that may be retries.
    private var retries = 0
    /// Whether they may be at the tail instead.
    private var isAtTail = false
    private var inFlight = 0
    private var counts: TailProbe.Counts?
    private var anchor: [UInt8] = []

    /// The question of the next look.
    var question: TailProbe.Question {
        var question = TailProbe.Question()
        question.anchor = anchor
        question.counts = counts ?? TailProbe.Counts()
        question.marks = asked.map { TailProbe.Mark(behind: pushed - marks[$0].number, digest: marks[$0].digest) }
        return question
    }

    private var asked: Range<Int> { claimedMarks..<min(marks.count, claimedMarks + Self.mostChecks) }

    /// The age of the job at the head, zero for an empty list; `nil` if it is unknown.
    private(set) var age: Duration?

    /// Takes the answer to `question`.
    ///
    /// - Parameters:
    ///   - inFlight: the jobs in flight at this look.
    ///   - isPaused: whether the whole list is paused. Then jobs return to the head.
    mutating func looked(_ answer: TailProbe.Answer, inFlight: Int, isPaused: Bool, at now: Instant) {
        defer {
            (counts, anchor, self.inFlight) = (answer.counts, answer.tail ?? [], inFlight)
            retries = min(retries, inFlight)
        }
        if let counts, answer.counts.claimed >= counts.claimed, answer.counts.released >= counts.released {
            follow(answer, since: counts, isPaused: isPaused)
        } else {
            (marks, claimedMarks, pushed, returned, reach, returnedRetries) = ([], 0, 0, 0, 0, 0)
        }
        mark(answer, at: now)
        age = age(length: answer.counts.length, now: now)
        forgetOldMarks()
    }

    // MARK: The past second

    private mutating func follow(_ answer: TailProbe.Answer, since before: TailProbe.Counts, isPaused: Bool) {
        let now = answer.counts
        let claims = now.claimed - before.claimed
        let released = now.released - before.released
        let promoted = max(0, now.postponed - before.postponed - (now.delayed - before.delayed))
        // Jobs that were added at the tail and at the head, without those that others removed.
        let added = now.length - before.length + claims
        (returned, reach) = (max(0, returned - claims), max(0, reach - claims))
        if returned == 0 { (reach, returnedRetries, isAtTail) = (0, 0, false) }
        retries += promoted
        var atHead = 0
        switch answer.anchor {
        case .behind(let count):
            pushed += count
            if count > added { doubt() }
            atHead = added - count - promoted
            check(answer.matches, length: now.length)
        case .missing where claims >= before.length:
            // The anchor was claimed, and all other marks before it.
            pushed += max(0, added - promoted - released)
            claimedMarks = marks.count
            atHead = released
            isAtTail = isAtTail || released > 0 && !isPaused
        case .missing, .ambiguous:
            pushed += max(0, added)
            marks.removeLast(marks.count - claimedMarks)
        }
        let more = max(0, min(atHead, released))
        if more > 0 { (reach, returnedRetries) = (max(reach, inFlight + claims), returnedRetries + min(more, retries)) }
        returned = min(returned + more, now.length)
        returnedRetries = min(returnedRetries, returned)
    }

    /// Another program has removed jobs.
    private mutating func doubt() { for index in claimedMarks..<marks.count { marks[index].isCertain = false } }

    private mutating func check(_ matches: [Bool], length: Int) {
        let asked = asked
        let found = zip(asked, matches).first { $1 }?.0
        // Marks that have no place in the list are claimed, whether they were asked for or not.
        let outside = marks[claimedMarks...].firstIndex { pushed - $0.number < length } ?? marks.count
        let end = max(outside, found ?? asked.upperBound)
        var kept: [Mark] = []
        for index in claimedMarks..<end where marks[index].isCertain { kept.append(marks[index]) }
        var rest: [Mark] = []
        for index in end..<marks.count {
            guard asked.contains(index), asked.lowerBound + matches.count > index else {
                rest.append(marks[index])
                continue
            }
            // Behind a mark that is in the list, one that is not at its place is lost.
            if matches[index - asked.lowerBound] {
                rest.append(marks[index])
                rest[rest.count - 1].isCertain = true
            }
        }
        marks.replaceSubrange(claimedMarks..., with: kept + rest)
        claimedMarks += kept.count
    }

    // MARK: This look

    private mutating func mark(_ answer: TailProbe.Answer, at now: Instant) {
        if answer.counts.length == 0 {
            // Every later push is newer.
            claimedMarks = marks.count
            markTail(digest: 0, at: now)
            claimedMarks = marks.count
        } else if answer.counts.length <= returned {
            // The job at the tail has its number already.
        } else if answer.tail != nil {
            // A job is there that no look has counted.
            if claimedMarks == marks.count, let last = marks.last, last.number >= pushed { pushed = last.number + 1 }
            markTail(digest: answer.digest, at: now)
        } else {
            marks.removeLast(marks.count - claimedMarks)
        }
    }

    private mutating func markTail(digest: UInt64, at now: Instant) {
        if let last = marks.indices.last, marks[last].number >= pushed {
            marks[last].last = now
        } else {
            marks.append(Mark(number: pushed, digest: digest, first: now, last: now))
        }
    }

    private func age(length: Int, now: Instant) -> Duration? {
        if length == 0 { return .zero }
        guard let claimed = numbersInFront(length: length), let older = marks.lastIndex(where: { $0.number <= claimed.low })
        else { return nil }
        let newer = marks.firstIndex { $0.number > claimed.high }
        if let newer, !marks[newer].isCertain { return nil }
        let low = marks[older]
        let high = newer.map { marks[$0] }
        let gap = (high?.first ?? now) - low.last
        var share = 0.5
        if let high, claimed.low == claimed.high {
            share = (Double(claimed.low - low.number) + 0.5) / Double(high.number - low.number)
        }
        let age = now - low.last - gap * share
        return gap <= max(Self.tolerance.time, age * Self.tolerance.share) ? max(.zero, age) : nil
    }

    /// The least and the greatest number that the last job in front of the head may have.
    private func numbersInFront(length: Int) -> (low: Int, high: Int)? {
        if length <= returned { return (pushed - max(reach, length), isAtTail ? pushed : pushed - length + returnedRetries) }
        guard claimedMarks < marks.count else { return nil }
        let next = marks[claimedMarks]
        let inFront = length - 1 - (pushed - next.number)
        let counted = next.number - 1 - inFront
        guard claimedMarks > 0 else { return (counted, counted) }
        // Retries and the parts of a split job are in front of the jobs that were pushed between the two marks.
        let last = marks[claimedMarks - 1].number
        let high = min(max(counted, isAtTail ? last : last - returned + returnedRetries), next.number - 1)
        return (returned > 0 ? min(high, last - max(reach, returned)) : high, high)
    }

    private mutating func forgetOldMarks() {
        if claimedMarks > 2 * Self.mostClaimed {
            let count = claimedMarks - Self.mostClaimed
            marks.removeFirst(count)
            claimedMarks -= count
        }
        if marks.count > Self.mostMarks {
            let half = claimedMarks + (marks.count - claimedMarks) / 2
            let older = stride(from: claimedMarks, to: half, by: 2).map { marks[$0] }
            marks.replaceSubrange(claimedMarks..<half, with: older)
        }
    }
}

/// The age of one list and the time to drain it, from one look per second.
struct ListFlow {
    /// The time over which the rate is smoothed.
    private static let smoothing = 10.0

    private var queueAge = QueueAge()
    private var last: (settled: Double, at: Instant)?
    /// Jobs that leave the queue for good, per second, of all workers together; `nil` before the second look.
    private(set) var settledPerSecond: Double?

    var question: TailProbe.Question { queueAge.question }
    var age: Duration? { queueAge.age }

    /// - Parameter answer: `nil` if Redis refused it.
    mutating func looked(_ status: QueueStatus, _ answer: TailProbe.Answer?, at now: Instant) {
        if let answer {
            let isPaused = status.pauses.contains(where: \.isOfList)
            queueAge.looked(answer, inFlight: status.inFlight, isPaused: isPaused, at: now)
        } else {
            queueAge = QueueAge()
        }
        let settled = [Counter.sent, .dead, .expired].reduce(0.0) { $0 + Double(status.counters[$1, default: 0]) }
        defer { last = (settled, now) }
        guard let last, now > last.at else { return }
        let seconds = (now - last.at) / .seconds(1)
        let rate = max(0, settled - last.settled) / seconds
        let weight = min(1, seconds / Self.smoothing)
        settledPerSecond = settledPerSecond.map { $0 + (rate - $0) * weight } ?? rate
    }

    /// Seconds until the waiting jobs are gone at the present rate; `nil` if it is unknown, or if nothing leaves.
    func drain(of backlog: Int) -> Double? {
        if backlog <= 0 { return 0 }
        guard let rate = settledPerSecond, rate >= 0.01 else { return nil }
        return Double(backlog) / rate
    }
}
