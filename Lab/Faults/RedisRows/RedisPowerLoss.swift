import Glibc
import Harness
internal import RedisQueue

/// Rollbacks of Redis to an earlier state than the acknowledged one.
extension Trial {
    /// Rolls Redis back while the proxy keeps the daemons from it, until no push is on the wire.
    ///
    /// `body` rolls Redis back. All jobs in Redis after it must be delivered, and those that APNs already accepted are
    /// duplicates. Other jobs acknowledged after `certain` are excused.
    ///
    /// - Parameter certain: jobs that Redis cannot have forgotten.
    func rollBack(certain: Set<Int>, _ body: () throws -> Void) throws {
        guard let proxy = stage.redisProxy else { preconditionFailure("this fault needs a proxy") }
        proxy.behaviour.refuses = true
        defer { proxy.behaviour.refuses = false }
        try body()
        proxy.cutAll()
        let acknowledged = acknowledged()
        tail.readUntilSilent()
        let snapshot = try RedisSnapshot.take(stage)
        let accepted = snapshot.open.count { tail.accepted[deviceToken($0)] != nil }
        allowTwice(accepted)
        excuse(acknowledged.subtracting(certain).subtracting(snapshot.all))
    }

    /// Simulates a power failure: the append-only file loses its last bytes, up to a random position.
    ///
    /// Redis must run with `appendfsync always`, so that the file contains all acknowledged writes.
    ///
    /// Redis 7.0.15 has a bug here: after a cut within a transaction, the log keeps the beginning of the transaction, and a
    /// *later* start executes that half. A rewrite of the log after the first start prevents it.
    func losePower(insideTransaction: Bool) throws {
        let path = stage.redis.appendOnlyFile
        let certain = acknowledged()
        var facts = stat()
        guard unsafe stat(path, &facts) == 0 else { throw TrialError(description: "no \(path): errno \(errno)") }
        pause(100...1500)
        stage.redis.kill()
        // Connected daemons notice now, and must not reconnect before the snapshot.
        try rollBack(certain: certain) {
            let log = AppendOnlyFile(path, from: Int(facts.st_size))
            let end = log.cut(insideTransaction: insideTransaction, &random)
            guard unsafe truncate(path, end) == 0 else { throw TrialError(description: "cannot truncate: errno \(errno)") }
            try stage.redis.restart()
            try stage.reconnect()
        }
        try stage.command(["BGREWRITEAOF"])
        try self.await("the log is rewritten") {
            try info("persistence", "aof_rewrite_in_progress") + info("persistence", "aof_rewrite_scheduled") == 0
        }
    }

    /// The end of an append-only file.
    private struct AppendOnlyFile {
        private let start: Int
        private let bytes: [UInt8]

        init(_ path: String, from start: Int) { (self.start, bytes) = (start, File.bytes(of: path, from: start)) }

        /// Returns the position of the cut: after any byte, or within a transaction if there is one.
        func cut(insideTransaction: Bool, _ random: inout SeededGenerator) -> Int {
            if insideTransaction, let begin = places(of: "*1\r\n$5\r\nMULTI\r\n", from: 0).randomElement(using: &random),
                let end = places(of: "*1\r\n$4\r\nEXEC\r\n", from: begin).first
            {
                return start + Int.random(in: begin + 1...end, using: &random)
            }
            return start + Int.random(in: 0...bytes.count, using: &random)
        }

        private func places(of text: String, from start: Int) -> [Int] {
            let pattern = Array(text.utf8)
            guard bytes.count >= start + pattern.count else { return [] }
            return (start...bytes.count - pattern.count).filter {
                bytes[$0] == pattern[0] && bytes[$0..<$0 + pattern.count].elementsEqual(pattern)
            }
        }
    }
}
