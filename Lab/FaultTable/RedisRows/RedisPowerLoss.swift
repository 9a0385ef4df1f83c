import Glibc
import Harness
internal import RedisQueue

/// A Redis that comes back with an earlier state than the one it had acknowledged.
extension Trial {
    /// Runs with the daemons kept away from Redis, but for those that reach it past the proxy, until nothing is on the wire any more.
    ///
    /// `body` puts Redis back in time. Whatever it has then must be delivered, and what APNs has accepted of it already will be
    /// delivered again; everything else that was acknowledged after `certain` is excused.
    ///
    /// - Parameter certain: jobs that Redis cannot have forgotten.
    func putBack(certain: Set<Int>, _ body: () throws -> Void) throws {
        guard let proxy = stage.redisProxy else { preconditionFailure("this strike needs a proxy") }
        proxy.behaviour.refuses = true
        defer { proxy.behaviour.refuses = false }
        try body()
        proxy.cutAll()
        let acknowledged = acknowledged()
        tail.readUntilSilent()
        let stock = try RedisStock.take(stage)
        let accepted = stock.open.count { tail.accepted[deviceToken($0)] != nil }
        allowTwice(accepted)
        excuse(acknowledged.subtracting(certain).subtracting(stock.all))
    }

    /// The power fails: of the append-only file only what was in it some time ago is left, up to any byte.
    ///
    /// Redis must run with `appendfsync always`, so that what is in the file at a moment is all that it had acknowledged.
    ///
    /// Redis 7.0.15 itself has a fault here: cut inside a command of a transaction, the log keeps the beginning of the
    /// transaction, and a *later* start carries out that half. A rewrite of the log after the first start rids it of that.
    func losePower(insideTransaction: Bool) throws {
        let path = stage.redis.appendOnlyFile
        let certain = acknowledged()
        var facts = stat()
        guard stat(path, &facts) == 0 else { throw TrialError(description: "no \(path): errno \(errno)") }
        pause(100...1500)
        stage.redis.kill()
        // Those who were connected notice now, and must not be let in before the stock is taken.
        try putBack(certain: certain) {
            let log = AppendOnlyFile(path, from: Int(facts.st_size))
            let end = log.cut(insideTransaction: insideTransaction, &random)
            guard truncate(path, end) == 0 else { throw TrialError(description: "cannot truncate: errno \(errno)") }
            try stage.redis.restart()
            try stage.reconnect()
        }
        try stage.command(["BGREWRITEAOF"])
        try self.await("the log is rewritten") {
            try info("persistence", "aof_rewrite_in_progress") + info("persistence", "aof_rewrite_scheduled") == 0
        }
    }
}

/// The end of an append-only file.
private struct AppendOnlyFile {
    private let start: Int
    private var bytes: [UInt8] = []

    init(_ path: String, from start: Int) {
        self.start = start
        guard let file = fopen(path, "r") else { return }
        defer { fclose(file) }
        fseek(file, start, SEEK_SET)
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
    }

    /// Where to cut it: behind any of its bytes; inside a transaction, if there is one.
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
