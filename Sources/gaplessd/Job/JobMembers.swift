internal import JSONBytes

/// The places of a job's members after one pass over its bytes: the last member of each name, without those that are `null`.
///
/// Not copyable, because it is used on the hot path and has half a kilobyte.
struct JobMembers: ~Copyable {
    let bytes: [UInt8]
    private var values = InlineArray<19, JSONSlice?>(repeating: nil)
    /// The range of the last member `tokens`, and the number of members that name a target, including `null`.
    private(set) var tokensMember: Range<Int>?
    private(set) var targetMembers = 0
    /// Whether the job has a member on which `Job.Rare` depends, including `null`.
    private(set) var hasRare = false

    subscript(key: JobKey) -> JSONSlice? { values[key.rawValue] }

    init(of job: [UInt8]) throws(JSONError) {
        bytes = job
        let bytes = job.span
        var cursor = JSONCursor()
        try cursor.enterObject(in: bytes)
        while let (name, value) = try cursor.nextMember(in: bytes) {
            guard let key = JobKey(name, in: bytes) else { continue }
            values[key.rawValue] = value.kind == .null ? nil : value
            if key.isRare { hasRare = true }
            if key.isTarget { targetMembers += 1 }
            if key == .tokens { tokensMember = name.range.lowerBound..<value.range.upperBound }
        }
        try cursor.finish(in: bytes)
        // Beside a token it is an unknown member: the original had no channels.
        if self[.channel] != nil && (self[.token] != nil || self[.tokens] != nil) { values[JobKey.channel.rawValue] = nil }
    }
}
