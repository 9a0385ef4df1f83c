import Foundation
import RedisQueue

@testable import FrostAlert

/// A redis-server on a Unix socket in a folder of its own. It ends with this object.
final class RedisServer {
    private let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    private let process = Process()
    let settings: QueueSettings

    init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let socket = folder.appending(path: "redis.sock").path
        settings = QueueSettings(list: "apns_queue", server: .unix(path: socket))
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder.path, "--logfile", "log",
        ]
        try process.run()
        let end = Date.now + 30
        while Date.now < end {
            if (try? command(["PING"])) == .status("PONG") { return }
        }
        throw CocoaError(.fileNoSuchFile)
    }

    deinit {
        // A child of this thread inherits its signal mask, which may block SIGTERM.
        kill(process.processIdentifier, SIGKILL)
        try? FileManager.default.removeItem(at: folder)
    }

    var link: RedisLink { RedisLink(settings, resultsKey: "push_results", label: "test") }

    @discardableResult
    func command(_ words: [String]) throws -> RedisReply {
        var client = try RedisClient(settings: settings)
        return try client.command(words)
    }

    func list(_ key: String) throws -> [String] {
        try command(["LRANGE", key, "0", "-1"]).items?.compactMap(\.text) ?? []
    }
}
