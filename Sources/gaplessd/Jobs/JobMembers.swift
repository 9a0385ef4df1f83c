internal import JSONBytes

/// Where a job's members stand, after one walk over all its bytes: the last of each name, and none that is `null`.
///
/// Not copyable, since it is read on the hot path and is half a kilobyte large.
struct JobMembers: ~Copyable {
    let bytes: [UInt8]
    private var values = InlineArray<17, JSONSlice?>(repeating: nil)
    /// The last member `tokens` with its key, and how many members are named `token` or `tokens`, `null` or not.
    private(set) var tokensMember: Range<Int>?
    private(set) var tokenMembers = 0

    subscript(key: JobKey) -> JSONSlice? { values[key.rawValue] }

    init(of job: [UInt8]) throws(JSONError) {
        bytes = job
        let bytes = job.span
        var cursor = JSONCursor()
        try cursor.enterObject(in: bytes)
        while let name = try cursor.nextKey(in: bytes) {
            guard let key = JobKey(name, in: bytes) else {
                _ = try cursor.value(in: bytes)
                continue
            }
            let value = try cursor.value(in: bytes)
            values[key.rawValue] = value.kind == .null ? nil : value
            if key == .token || key == .tokens { tokenMembers += 1 }
            if key == .tokens { tokensMember = name.range.lowerBound..<value.range.upperBound }
        }
        try cursor.finish(in: bytes)
        // Beside a token it is a member of the producer's own: jobs had no channels in the original.
        if self[.channel] != nil && (self[.token] != nil || self[.tokens] != nil) { values[JobKey.channel.rawValue] = nil }
    }
}
