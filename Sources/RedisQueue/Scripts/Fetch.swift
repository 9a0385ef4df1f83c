/// Replies the jobs at these positions of a chunk. The arguments are the positions.
struct Fetch: Equatable {
    var chunk: UInt64
    var places: [Int]

    /// `jobs` is the list of the chunk.
    static let script = Script(
        [], more: ["jobs"], isFenced: false,
        Lua.abridged + """
            local jobs = {}
            for i, place in ipairs(ARGV) do jobs[i] = abridged(redis.call('LRANGE', KEYS.jobs, place, place)[1] or false) end
            return jobs
            """)
}
