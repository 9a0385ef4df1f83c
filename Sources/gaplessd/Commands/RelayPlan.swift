import JSONBytes
import Platform
import PushPool
import RedisQueue

/// Decides which results the relay posts next, and records what became of them. Knows no receiver and no Redis.
///
/// A batch that the receiver does not accept is halved: at once if it was too large, too slow or its content was refused, else
/// from the fifth failure in a row on. So a single result is found that the receiver refuses alone. It waits by itself, and all
/// others go on. After `mostAttempts` refusals it is set aside. A refusal that says nothing about the result, such as 503, counts
/// only if the receiver accepts another result after it: an outage sets nothing aside. Many refusals in a row are followed by a
/// wait, whatever their reason.
struct RelayPlan {
    /// Entries of one batch.
    static let mostEntries = 250
    /// Refusals of one result after which it is set aside.
    static let mostAttempts = 5
    /// Entries that a relay holds. As many refused results in a row count as an outage.
    private static let mostHeld = 1000
    /// Failures in a row before a batch is halved whose content is not known to be the cause.
    private static let patience = 5
    /// Refusals in a row that follow each other without a wait. Fewer lead from a full batch to the result at fault.
    private static let mostQuick = 16
    /// Acceptances in a row before a batch that had to shrink grows again, at most.
    private static let longestStreak = 64

    enum Failure: Equatable {
        /// 413.
        case tooLarge
        /// 400 or 422: the content is refused.
        case content
        /// The request was sent, and no response came in time.
        case slow
        case other

        init(status: Int) {
            switch status {
            case 413: self = .tooLarge
            case 400, 422: self = .content
            default: self = .other
            }
        }
    }

    /// A result that the receiver refuses alone.
    struct Refused: Equatable {
        var entry: RelayEntry
        var problem: String
        var attempts: Int
    }

    private struct Suspect {
        var refused: Refused
        /// Whether the last refusal counts when another result is accepted.
        var isPending = false
        var due: Instant
    }

    private let backoff: Backoff
    /// A batch that took longer does not grow.
    private let quick: Duration
    /// Results in their order. The first `tainted` of them were in a batch that failed.
    private var waiting: [RelayEntry] = []
    private var tainted = 0
    /// Results that were refused alone.
    private var suspects: [Suspect] = []
    private var held: Set<String> = []
    /// The batch that is being posted. One suspect, or the first of those that wait.
    private var current: [RelayEntry] = []
    private var isSuspectPosted = false

    private var size = mostEntries
    private var streak = 0
    private var streakToGrow = 1
    private var failures = 0
    private var hasSetAside = false

    /// Results that the receiver has accepted, until they are acknowledged.
    private(set) var accepted: [String] = []
    /// Results to set aside.
    private(set) var refused: [Refused] = []

    init(backoff: Backoff, timeout: Duration) { (self.backoff, quick) = (backoff, timeout / 4) }

    /// The results that neither are acknowledged nor set aside, without those that the receiver has accepted.
    var ids: [String] { waiting.map(\.id) + suspects.map(\.refused.entry.id) + refused.map(\.entry.id) }
    /// The number of entries to read.
    var room: Int { waiting.isEmpty ? min(Self.mostEntries, Self.mostHeld - held.count) : 0 }
    /// The earliest time of another post of a result that was refused alone.
    var due: Instant? { suspects.map(\.due).min() }

    /// Adds results that Redis has given to this relay. A result that it holds or has accepted is not added again.
    mutating func received(_ entries: [RelayEntry]) {
        let done = Set(accepted)
        for entry in entries where !done.contains(entry.id) && held.insert(entry.id).inserted { waiting.append(entry) }
    }

    /// Forgets results that belong to another relay now.
    mutating func keepOnly(_ ids: Set<String>) {
        waiting.removeAll { !ids.contains($0.id) }
        suspects.removeAll { !ids.contains($0.refused.entry.id) }
        refused.removeAll { !ids.contains($0.entry.id) }
        held.formIntersection(ids)
        (current, tainted) = ([], 0)
    }

    /// Returns the next results to post; none if only suspects are left whose time has not come.
    mutating func next(now: Instant) -> [RelayEntry] {
        let suspect = suspects.indices.filter { suspects[$0].due <= now }.min { suspects[$0].due < suspects[$1].due }
        // Others go between two suspects: an acceptance shows that the receiver works.
        if let suspect, waiting.isEmpty || !isSuspectPosted {
            isSuspectPosted = true
            current = [suspects[suspect].refused.entry]
        } else {
            isSuspectPosted = false
            current = Array(waiting.prefix(tainted > 0 ? min(size, tainted) : size))
        }
        return current
    }

    /// - Parameter duration: of the post.
    mutating func accepted(after duration: Duration) {
        (failures, hasSetAside) = (0, false)
        let ids = Set(current.map(\.id))
        accepted += current.map(\.id)
        held.subtract(ids)
        if isSuspectPosted {
            suspects.removeAll { ids.contains($0.refused.entry.id) }
        } else {
            waiting.removeFirst(current.count)
            tainted = max(0, tainted - current.count)
            if current.count == size { grow(after: duration) }
        }
        current = []
        creditSuspects()
    }

    private mutating func grow(after duration: Duration) {
        streak += 1
        if size == Self.mostEntries { streakToGrow = 1 }
        guard streak >= streakToGrow, duration < quick else { return }
        (size, streak) = (min(Self.mostEntries, size * 2), 0)
    }

    /// Counts the refusals that an acceptance has confirmed.
    private mutating func creditSuspects() {
        var returning: [RelayEntry] = []
        for index in suspects.indices.reversed() where suspects[index].isPending {
            suspects[index].isPending = false
            suspects[index].refused.attempts += 1
            let suspect = suspects[index].refused
            if suspect.attempts >= Self.mostAttempts {
                refused.append(suspect)
                suspects.remove(at: index)
            } else if suspect.attempts == 1, suspects.count > Self.patience {
                // Several at once were refused in an outage: they go in batches again.
                returning.append(suspect.entry)
                suspects.remove(at: index)
            }
        }
        if returning.isEmpty { return }
        waiting = returning.reversed() + waiting
        tainted = 0
    }

    /// - Parameter problem: for the log and the record.
    /// - Returns: the time to wait before the next post.
    mutating func failed(_ failure: Failure, _ problem: String, now: Instant) -> Duration {
        failures += 1
        let wait = backoff.wait(afterFailures: failures, random: .random(in: 0..<1))
        defer { current = [] }
        if current.count > 1 {
            guard failure != .other || tainted > 0 || failures >= Self.patience else { return wait }
            if tainted == 0 { tainted = current.count }
            (size, streak) = (current.count / 2, 0)
            // Failures in a row are one lesson.
            if failures == 1 { streakToGrow = min(Self.longestStreak, streakToGrow * 2) }
        } else {
            refusedAlone(failure, problem, now: now)
        }
        guard failure == .tooLarge || failure == .content else { return wait }
        // A receiver that refuses every result is at fault itself.
        let slow = failures - Self.mostQuick
        return slow > 0 ? backoff.wait(afterFailures: slow, random: .random(in: 0..<1)) : .zero
    }

    private mutating func refusedAlone(_ failure: Failure, _ problem: String, now: Instant) {
        guard let entry = current.first else { return }
        var suspect: Suspect
        if let index = suspects.firstIndex(where: { $0.refused.entry.id == entry.id }) {
            suspect = suspects.remove(at: index)
        } else {
            suspect = Suspect(refused: Refused(entry: entry, problem: problem, attempts: 0), due: now)
            waiting.removeFirst()
            tainted = max(0, tainted - 1)
        }
        suspect.refused.problem = problem
        switch failure {
        case .tooLarge, .content: suspect.refused.attempts += 1
        case .slow, .other: suspect.isPending = true
        }
        // A receiver that refuses every result is at fault itself: without an acceptance, only one is set aside.
        if suspect.refused.attempts >= Self.mostAttempts, !hasSetAside {
            hasSetAside = true
            refused.append(suspect.refused)
        } else {
            let tries = max(suspect.refused.attempts, suspect.isPending ? failures : 1)
            suspect.due = now + backoff.wait(afterFailures: tries, random: .random(in: 0..<1))
            suspects.append(suspect)
        }
    }

    /// All accepted results are acknowledged.
    mutating func acknowledged() { accepted = [] }

    /// The results of `refused` are set aside.
    mutating func setAside() {
        held.subtract(refused.map(\.entry.id))
        refused = []
    }
}

/// One entry of the results stream.
struct RelayEntry: Equatable {
    /// The fields whose text is a number.
    private static let numbers: Set<String> = [
        "status", "attempts", "at", "timestamp", "claimed_at", "sent_at", "responded_at",
    ]

    /// Its id in the stream.
    var id: String
    var fields: [(name: String, value: String)]

    static func == (left: Self, right: Self) -> Bool {
        left.id == right.id && left.fields.elementsEqual(right.fields) { $0.name == $1.name && $0.value == $1.value }
    }

    init(id: String, fields: [(name: String, value: String)]) { (self.id, self.fields) = (id, fields) }

    /// Reads `[id, [field, value, …]]`; `nil` for an entry that was deleted from the stream.
    init?(_ reply: RedisReply) {
        guard let parts = reply.items, parts.count == 2, let id = parts[0].text, let texts = parts[1].items else { return nil }
        let words = texts.map { $0.text ?? "" }
        self.init(id: id, fields: stride(from: 0, to: words.count - 1, by: 2).map { (words[$0], words[$0 + 1]) })
    }

    /// An object with the id of the entry and its fields. An empty value is `null`. Others may have written any field: a number
    /// that JSON does not allow is a string, and of fields with the same name the last one counts.
    var json: JSONValue {
        var names: Set<String> = ["id"]
        let last = fields.reversed().filter { names.insert($0.name).inserted }.reversed()
        let members = last.map { field -> JSONMember in
            let isNumber = Self.numbers.contains(field.name) && Self.isInteger(field.value)
            let value: JSONValue = field.value.isEmpty ? .null : isNumber ? .number(field.value) : .string(field.value)
            return JSONMember(field.name, value)
        }
        return .object([JSONMember("id", .string(id))] + members)
    }

    /// Whether the text is an integer in the grammar of JSON (RFC 8259, 6) with at most 64 bits. `Int64` also reads `+1` and
    /// `007`.
    private static func isInteger(_ text: String) -> Bool { Int64(text).map { "\($0)" == text } ?? false }

    /// The body of a request: a JSON array.
    static func body(_ entries: [RelayEntry]) -> [UInt8] { JSONValue.array(entries.map(\.json)).bytes }
}
