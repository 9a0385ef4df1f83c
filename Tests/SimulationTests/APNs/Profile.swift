/// The behaviour of the simulated APNs, in probabilities for each request.
struct Profile {
    /// Times for one direction, and for a response.
    var latency: ClosedRange<Int64> = 50 * .microsecond...200 * .microsecond
    var mostThinking: Int64 = 5 * .millisecond
    var streams = 1000
    /// Status and reason, with their probabilities.
    var rejections: [(status: Int, reason: String, chance: Double)] = []
    /// The server reads a request and never answers it.
    var ignored = 0.0
    /// RST_STREAM with REFUSED_STREAM.
    var refused = 0.0
    /// RST_STREAM with INTERNAL_ERROR, of a request that may have been processed.
    var reset = 0.0
}
