import PushPool

/// A job that this process holds, from its claim to its settlement.
///
/// A class: as a value it would be a third of a kilobyte, copied at each step (measured: a fifth of the dispatcher's time). The
/// dispatcher's thread alone has it.
final class HeldJob {
    let job: Job
    /// Which of the daemon's lists it came from, and its id there.
    let list: Int
    let claim: UInt64
    /// Which app carries it.
    let app: Int
    /// `apns-expiration`, fixed at the first send; 0 is one attempt, and no deadline.
    var expiration: Int64
    /// Uncounted resends since its claim, and those of them after which APNs may have it twice.
    var resends = 0
    var maybeDuplicates = 0
    /// What is sent instead of `data`, where the filter has masked words in it.
    var maskedPayload: [UInt8]?
    /// The last session that failed it.
    var avoiding: SessionID?
    /// Another worker has it now: what becomes of it here is of no consequence.
    var isDisowned = false
    /// An answer that is settled only when the app has had its first acceptance.
    var suspectAnswer: SuspectAnswer?

    init(_ job: consuming Job, list: Int, claim: UInt64, app: Int, expiration: Int64) {
        self.job = job
        self.list = list
        self.claim = claim
        self.app = app
        self.expiration = expiration
    }
}

/// An answer that a wrong environment would explain, and what the feedback list is to say should the token be to blame.
struct SuspectAnswer {
    var rejection: Rejection
    var verdict: FeedbackRecord.Verdict?
    /// From a session of the settings before a reload, whose environment may have been another one.
    var isStale = false
}

/// The jobs held, by the number that a notification carries: a slot and how often the slot was used, so that a late
/// answer to a job that is gone finds nothing. No hashing and no allocation on the way.
struct HeldJobs {
    private struct Slot {
        var use: UInt32 = 0
        var job: HeldJob?
    }

    private var slots: [Slot] = []
    private var free: [UInt32] = []
    private(set) var count = 0

    /// Keeps `job`; returns its number.
    mutating func insert(_ job: HeldJob) -> UInt64 {
        count += 1
        let index: UInt32
        if let reused = free.popLast() {
            index = reused
        } else {
            index = UInt32(slots.count)
            slots.append(Slot())
        }
        slots[Int(index)].use &+= 1
        slots[Int(index)].job = job
        return UInt64(slots[Int(index)].use) << 32 | UInt64(index)
    }

    /// The job, if it is still held.
    subscript(number: UInt64) -> HeldJob? {
        let index = Int(number & 0xFFFF_FFFF)
        guard index < slots.count, slots[index].use == UInt32(number >> 32) else { return nil }
        return slots[index].job
    }

    /// Takes the job out.
    mutating func remove(_ number: UInt64) -> HeldJob? {
        let index = Int(number & 0xFFFF_FFFF)
        guard index < slots.count, slots[index].use == UInt32(number >> 32) else { return nil }
        guard let job = slots[index].job.take() else { return nil }
        free.append(UInt32(index))
        count -= 1
        return job
    }

    /// The numbers of all jobs for which `condition` holds, in no order. Walks every slot: for rare events only.
    func numbers(where condition: (HeldJob) -> Bool) -> [UInt64] {
        slots.indices.compactMap { index in
            guard let job = slots[index].job, condition(job) else { return nil }
            return UInt64(slots[index].use) << 32 | UInt64(index)
        }
    }
}
