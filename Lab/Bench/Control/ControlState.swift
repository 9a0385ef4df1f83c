import Harness
import JSONBytes

/// Where all jobs of a paused list are, by the bytes that are in Redis and the tokens that the simulator accepted.
struct ControlState: CustomStringConvertible {
    var waiting = 0
    var waitingOfApp = 0
    var cancelled = 0
    var delivered = 0
    private var jobs: Int
    /// Jobs with other bytes than they were pushed with, jobs in two places, and accepted tokens of cancelled jobs.
    private var changed = 0
    private var doubled = 0
    private var missing = 0

    /// - Parameters:
    ///   - original: the bytes of a job by its number.
    ///   - number: the number of a job by its token.
    init(
        jobs: Int, waiting: [[UInt8]], cancelled: [[UInt8]], delivered: [String: Int], original: (Int) -> String,
        number: (String) -> Int?, isOfApp: (Int) -> Bool
    ) throws {
        self.jobs = jobs
        var places = [Int](repeating: 0, count: jobs)
        func take(_ bytes: [UInt8]) throws -> Int? {
            let token = try JSONValue.parse(bytes)["token"]?.stringValue
            guard let found = token.flatMap(number), found < jobs, Array(original(found).utf8) == bytes else {
                changed += 1
                return nil
            }
            places[found] += 1
            return found
        }
        for bytes in waiting { if let found = try take(bytes), isOfApp(found) { waitingOfApp += 1 } }
        for record in cancelled {
            let text = try JSONValue.parse(record)["element"]?.stringValue ?? ""
            _ = try take(Array(text.utf8))
        }
        for token in delivered.keys { if let found = number(token), found < jobs { places[found] += 1 } }
        (self.waiting, self.cancelled, self.delivered) = (waiting.count, cancelled.count, delivered.count)
        doubled = places.count { $0 > 1 }
        missing = places.count { $0 == 0 }
    }

    var faults: [String] {
        var faults: [String] = []
        if changed > 0 { faults.append("\(changed) jobs have other bytes") }
        if doubled > 0 { faults.append("\(doubled) jobs are in two places") }
        if missing > 0 { faults.append("\(missing) jobs are missing") }
        return faults
    }

    var description: String {
        "\(jobs) jobs = \(delivered) delivered + \(waiting) waiting + \(cancelled) cancelled; "
            + "missing \(missing), in two places \(doubled), with other bytes \(changed)"
    }
}
