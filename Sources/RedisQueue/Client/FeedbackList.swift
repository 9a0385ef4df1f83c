/// The feedback entries of one list: read in pages, and removed after they were stored elsewhere.
public struct FeedbackList: Sendable {
    /// Entries in a page.
    public static let mostEntries = 100

    private let keys: Keys
    private let entries: WaitingJobs

    public init(_ keys: Keys) { (self.keys, entries) = (keys, WaitingJobs(keys)) }

    /// Returns entries from an index on, oldest first.
    public func page(from index: Int, most: Int = mostEntries, _ client: inout RedisClient) throws(RedisError) -> [[UInt8]] {
        try entries.page(of: keys.feedback, from: index, most: min(most, FeedbackList.mostEntries), &client).map(\.element)
    }

    /// Removes entries that were read from the beginning of the list. If others have removed the first ones meanwhile, only the
    /// rest is removed.
    ///
    /// - Returns: the number of removed entries; 0 if the list does not begin with any of them.
    public func remove(_ page: [[UInt8]], _ client: inout RedisClient) throws(RedisError) -> Int {
        if page.isEmpty { return 0 }
        let command = ["EVAL", FeedbackList.removeScript, "1", keys.feedback].map { Array($0.utf8) } + page
        return try client.command(command).count ?? 0
    }

    private static let removeScript = """
        local head = redis.call('LRANGE', KEYS[1], 0, #ARGV - 1)
        for skipped = 0, #ARGV - 1 do
          local count, equal = #ARGV - skipped, true
          for i = 1, count do
            if head[i] ~= ARGV[skipped + i] then equal = false break end
          end
          if equal then
            redis.call('LTRIM', KEYS[1], count, -1)
            return count
          end
        end
        return 0
        """
}
