/// The jobs that this process holds, by `JobID`. A slot is used again under another number, so that a late response to a settled
/// job finds nothing. Look-ups neither hash nor allocate.
struct HeldJobs {
    private struct Slot {
        var use: UInt32 = 0
        var job: HeldJob?
    }

    private var slots: [Slot] = []
    private var free: [UInt32] = []
    private(set) var count = 0

    /// Keeps `job` and returns its number.
    mutating func insert(_ job: HeldJob) -> JobID {
        count += 1
        let slot: Int
        if let reused = free.popLast() {
            slot = Int(reused)
        } else {
            slot = slots.count
            slots.append(Slot())
        }
        slots[slot].use &+= 1
        slots[slot].job = job
        return JobID(slot: slot, use: slots[slot].use)
    }

    /// The job, if it is still held.
    subscript(id: JobID) -> HeldJob? {
        let slot = id.slot
        guard slot < slots.count, slots[slot].use == id.use else { return nil }
        return slots[slot].job
    }

    mutating func remove(_ id: JobID) -> HeldJob? {
        let slot = id.slot
        guard slot < slots.count, slots[slot].use == id.use, let job = slots[slot].job.take() else { return nil }
        free.append(UInt32(slot))
        count -= 1
        return job
    }

    /// The numbers of all jobs for which `condition` holds, in no order. Visits every slot: for rare events only.
    func ids(where condition: (HeldJob) -> Bool) -> [JobID] {
        slots.indices.compactMap { slot in
            guard let job = slots[slot].job, condition(job) else { return nil }
            return JobID(slot: slot, use: slots[slot].use)
        }
    }
}
