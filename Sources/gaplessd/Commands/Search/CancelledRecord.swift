import JSONBytes
import RedisQueue

/// One element of the list of cancelled jobs.
struct CancelledRecord: Equatable {
    /// The element as it was, byte for byte.
    var element: [UInt8]
    /// The score of a delayed job, as Redis writes it.
    var due: String?
    /// Unix seconds.
    var at: Int64
    /// The pass of `cancel` that removed the job; `nil` in a record from before passes were counted.
    var pass: Int64?

    /// The job: a delayed element has the worker and a number in front of it.
    var job: [UInt8] { due == nil ? element : WaitingJobs.job(ofDelayed: element) }

    init(_ entry: CancelledJobs.Entry, at: Int64, pass: Int64? = nil) {
        (element, due, self.at, self.pass) = (entry.element, entry.due, at, pass)
    }

    func bytes() -> [UInt8] {
        var record = RecordWriter(capacity: element.count + element.count / 8 + 64)
        record.add("at", number: at)
        record.add("pass", number: pass)
        record.add("due", text: due)
        if isValidUTF8(element) {
            record.add("element", utf8: element)
        } else {
            record.add("element_base64", utf8: Base64.encode(element))
        }
        return record.finish()
    }

    /// `nil` for bytes that no `cancel` wrote.
    init?(_ bytes: [UInt8]) {
        guard let record = try? JSONValue.parse(bytes) else { return nil }
        guard
            let element = record["element"]?.stringValue.map({ Array($0.utf8) })
                ?? record["element_base64"]?.stringValue.flatMap({ Base64.decode(Array($0.utf8)) })
        else { return nil }
        (self.element, due, at) = (element, record["due"]?.stringValue, record["at"]?.integerValue ?? 0)
        pass = record["pass"]?.integerValue
    }
}
