import PushPool

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
