/// The most bytes of one claim, and the most jobs of one fetch, fitted to the speed of the link to Redis.
///
/// On a slow link a large reply delays the replies behind it, among them those to heartbeats. A reply should arrive within about
/// a second.
struct ClaimSize {
    static let mostBytes = 1 << 20
    /// Of the first claims, until the speed of the link is known.
    static let firstBytes = 512 << 10
    static let leastBytes = 16 << 10
    private static let long = Duration.seconds(1)
    private static let short = Duration.milliseconds(250)

    /// One job may be larger.
    private(set) var bytes = firstBytes
    private(set) var jobsOfFetch = Chunk.mostJobs

    /// A claim was answered after this time with this many bytes of jobs.
    mutating func claimed(_ count: @autoclosure () -> Int, within time: Duration) {
        if time > ClaimSize.long {
            bytes = max(ClaimSize.leastBytes, bytes / 2)
        } else if bytes < ClaimSize.mostBytes, time < ClaimSize.short, count() >= bytes / 2 {
            bytes = min(ClaimSize.mostBytes, bytes * 2)
        }
    }

    /// The connection broke before the reply to a claim or fetch.
    mutating func claimLost() { bytes = max(ClaimSize.leastBytes, bytes / 2) }
    mutating func fetchLost() { jobsOfFetch = max(1, jobsOfFetch / 2) }

    /// Everything was fetched.
    mutating func fetched() { jobsOfFetch = Chunk.mostJobs }
}
