/// Writes the lines of the dispatcher, in the order of the outcomes.
struct DispatchLog {
    private let log: Log
    /// Jobs for `Sent:` lines, logged together: a lock and a look at the clock for each would cost more than the lines.
    private var sent: [[UInt8]] = []

    init(_ log: Log) { self.log = log }

    /// A delivered job, redacted as the settings say.
    mutating func sent(_ job: [UInt8]) { sent.append(job) }

    mutating func writeSent() {
        if sent.isEmpty { return }
        log.sent(sent)
        sent.removeAll(keepingCapacity: true)
    }

    mutating func callAsFunction(_ entry: LogEntry) {
        writeSent()
        switch entry {
        case .sentence(.debug, let text, _): log.debug(text)
        case .sentence(.info, let text, let event): log.info(text, event)
        case .sentence(.warning, let text, let event): log.warning(text, event)
        case .sentence(.error, let text, let event): log.error(text, event)
        case .sent(let job, let push): log.sent(job, push)
        case .retrying(let identifier, let reason, let count, let push):
            log.retrying(identifier: identifier, reason, count: count, push)
        case .final(let identifier, let reason, let job, let push): log.final(identifier: identifier, reason, job: job, push)
        case .badJob(let job, let error, let redacts): log.badJob(job, error, redacts: redacts)
        }
    }
}
