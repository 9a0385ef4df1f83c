/// Replies to requests of one connection with errors, in place of Redis, which does not receive these requests.
///
/// The replies keep the order of the requests.
struct RedisRefusals {
    private var requests: [UInt8] = []
    private var replies: [UInt8] = []
    /// An element for each request without a reply: its error, or `nil` if Redis replies.
    private var pending: [String?] = []

    /// Adds bytes of the daemon. Returns the bytes for Redis, and the replies that are due.
    ///
    /// - Parameter refuse: returns the error for the next request, or `nil` if Redis receives it.
    mutating func add(requests bytes: ArraySlice<UInt8>, refuse: () -> String?) -> (toServer: [UInt8], toDaemon: [UInt8]) {
        requests += bytes
        var toServer: [UInt8] = []
        while let request = RedisRefusals.takeValue(of: &requests) {
            let error = refuse()
            pending.append(error)
            if error == nil { toServer += request }
        }
        return (toServer, takeErrors())
    }

    /// Adds bytes of Redis. Returns the replies that are due.
    mutating func add(replies bytes: ArraySlice<UInt8>) -> [UInt8] {
        replies += bytes
        var toDaemon: [UInt8] = []
        while let reply = RedisRefusals.takeValue(of: &replies) {
            toDaemon += reply
            if !pending.isEmpty { pending.removeFirst() }
            toDaemon += takeErrors()
        }
        return toDaemon
    }

    private mutating func takeErrors() -> [UInt8] {
        let errors = pending.prefix { $0 != nil }
        pending.removeFirst(errors.count)
        return errors.flatMap { Array("-\($0 ?? "")\r\n".utf8) }
    }

    private static func takeValue(of bytes: inout [UInt8]) -> [UInt8]? {
        guard let length = RESPFrame.length(of: bytes[...]) else { return nil }
        defer { bytes.removeFirst(length) }
        return Array(bytes[..<length])
    }
}
