/// Finds jobs whose own rejections hold their app, although the credential is good.
///
/// A job gets a strike if it was the only job that APNs rejected before and during a hold, and then another job was accepted.
/// At the next rejection after two strikes the job is at fault.
struct HoldCulprits {
    /// A hash of the parts of a job that stay the same when it returns to its list.
    typealias Fingerprint = Int

    static let strikes = 2
    /// Jobs with strikes that are remembered. A new one replaces the oldest.
    static let capacity = 100

    private var known: [(job: Fingerprint, strikes: Int)] = []
    private var rejected: Fingerprint?
    private var wereSeveralRejected = false

    /// APNs rejected the job with a fault of the credential or of the topic. Returns whether the job itself is at fault.
    mutating func rejected(_ job: Fingerprint) -> Bool {
        if let index = known.firstIndex(where: { $0.job == job }), known[index].strikes >= Self.strikes {
            known.remove(at: index)
            return true
        }
        if let rejected, rejected != job { wereSeveralRejected = true }
        rejected = job
        return false
    }

    /// APNs accepted a job, which ended the hold.
    mutating func holdEnded(by accepted: Fingerprint) {
        if let rejected, !wereSeveralRejected, rejected != accepted { strike(rejected) }
        known.removeAll { $0.job == accepted }
        forgetRejections()
    }

    /// The hold ended without an acceptance.
    mutating func forgetRejections() { (rejected, wereSeveralRejected) = (nil, false) }

    private mutating func strike(_ job: Fingerprint) {
        if let index = known.firstIndex(where: { $0.job == job }) {
            known[index].strikes += 1
        } else {
            if known.count == Self.capacity { known.removeFirst() }
            known.append((job, 1))
        }
    }
}
