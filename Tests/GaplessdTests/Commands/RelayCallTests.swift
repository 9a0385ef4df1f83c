import Glibc
import Harness
import JSONBytes
import Platform
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd relay")
struct RelayCallTests {
    private let stage: CallStage

    init() throws { stage = try CallStage() }

    private func settings(_ receiver: HTTPReceiver, _ changes: [String: String?] = [:]) throws -> String {
        try CallStage.write(
            [
                "redis_socket_path": stage.redis.socketPath.quoted, "redis_results_key": "\"results\"", "redis_lease": "1",
                "relay_url": "\"http://127.0.0.1:\(receiver.port)/hook?x=1\"", "relay_secret": "\"hush-8123\"",
            ].merging(changes) { $1 }, to: stage.folder.file("relay.json"))
    }

    private func add(_ identifiers: some Sequence<Int>) throws {
        for identifier in identifiers {
            try stage.redis("XADD", "results", "*", "identifier", "\(identifier)", "status", "200", "reason", "")
        }
    }

    /// The identifiers of all results that the receiver has accepted.
    private func identifiers(_ receiver: HTTPReceiver) -> [Int] {
        receiver.accepted.flatMap { body -> [Int] in
            guard case .array(let results)? = try? JSONValue.parse(Array(body.utf8)) else { return [-1] }
            return results.map { $0["identifier"]?.stringValue.flatMap { Int($0) } ?? -1 }
        }
    }

    /// The number of entries that are read and not acknowledged.
    private func pending() throws -> Int64? {
        try stage.redis("XPENDING", "results", "gapless-relay").items?.first?.integer
    }

    private func stop(_ relay: ChildProcess) -> CInt? {
        relay.kill(SIGTERM)
        return relay.wait(atMost: .seconds(60))?.status
    }

    @Test func `posts each result once, signed, over one connection, and acknowledges it`() throws {
        let receiver = try HTTPReceiver()
        try add(0..<600)
        let (relay, out, err) = try stage.start("relay", [], settings: settings(receiver))
        #expect(waitUntil { identifiers(receiver).count >= 600 }, "\(File.read(out))\(File.read(err))")
        try add(600..<601)
        #expect(waitUntil { identifiers(receiver) == Array(0..<601) })
        #expect(try waitUntil { try pending() == 0 })
        let request = try #require(receiver.requests.first)
        #expect(request.line == "POST /hook?x=1 HTTP/1.1" && request.headers["content-type"] == "application/json")
        let signature = HMACSHA256.hexadecimal(of: Array(request.body.utf8), key: Array("hush-8123".utf8))
        #expect(request.headers["x-gapless-signature"] == "sha256=\(signature)")
        guard case .array(let results) = try JSONValue.parse(Array(request.body.utf8)) else { throw HarnessError("no array") }
        #expect(results.count == 250 && results[0]["status"]?.integerValue == 200 && results[0]["reason"] == .null)
        #expect(results[0]["id"]?.stringValue?.contains("-") == true)
        #expect(receiver.connections == 1)
        #expect(stop(relay) == 0)
        #expect(try stage.redis("XINFO", "CONSUMERS", "results", "gapless-relay").items?.count == 0)
        let text = File.read(out) + File.read(err)
        #expect(!["hush-8123", "x=1", "/hook"].contains(where: text.contains), "\(text)")
    }

    @Test func `sends additional headers, and prints no value of them`() throws {
        let receiver = try HTTPReceiver(plan: [500])
        try add(0..<1)
        let headers = #"{"Authorization": "Bearer hush 8124", "User-Agent": "mine"}"#
        let (relay, out, err) = try stage.start("relay", ["--json"], settings: settings(receiver, ["relay_headers": headers]))
        #expect(waitUntil { identifiers(receiver) == [0] })
        let request = try #require(receiver.requests.first)
        #expect(request.headers["authorization"] == "Bearer hush 8124" && request.headers["user-agent"] == "mine")
        #expect(stop(relay) == 0)
        #expect(!(File.read(out) + File.read(err)).contains("8124"))
    }

    @Test func `makes batches smaller for a receiver that refuses large ones`() throws {
        let receiver = try HTTPReceiver { $0.utf8.count > 4000 ? 413 : 200 }
        try add(0..<600)
        let (relay, _, err) = try stage.start("relay", [], settings: settings(receiver))
        #expect(waitUntil { identifiers(receiver).count >= 600 }, "\(File.read(err))")
        #expect(identifiers(receiver) == Array(0..<600))
        #expect(try waitUntil { try pending() == 0 })
        #expect(stop(relay) == 0)
    }

    @Test(arguments: [422, 500, 0])
    func `sets a result aside that the receiver refuses alone`(status: Int) throws {
        let receiver = try HTTPReceiver { $0.contains("\"identifier\": \"7\"") ? status : 200 }
        try add(0..<20)
        let (relay, out, err) = try stage.start("relay", [], settings: settings(receiver))
        let list = stage.keys.refused
        let isSetAside = waitUntil(atMost: .seconds(120)) {
            // An acceptance of another result shows that the receiver works.
            try? add(100..<101)
            return (try? stage.redis("LLEN", list).integer) == 1
        }
        #expect(isSetAside, "\(File.read(err))")
        #expect(try waitUntil { try pending() == 0 })
        #expect(Set(identifiers(receiver)).isSuperset(of: (0..<20).filter { $0 != 7 }))
        let record = try JSONValue.parse(Array(#require(try stage.elements(list).first).utf8))
        #expect(record["result"]?["identifier"]?.stringValue == "7" && record["attempts"]?.integerValue == 5)
        #expect(record["stream"]?.stringValue == "results" && record["at"]?.integerValue ?? 0 > 0)
        #expect(try stage.redis("HGET", stage.keys.stats, "results_refused").text == "1")
        #expect(waitUntil { File.read(err).contains("It was set aside in \(list), which has 1 result.") }, "\(File.read(err))")
        let alone = receiver.requests.filter { $0.body.contains("\"identifier\": \"7\"") && !$0.body.contains("}, {") }
        #expect(alone.count >= 5)
        #expect(try stage.call("audit", "--json").output.contains(#""foreign_keys": []"#))
        #expect(stop(relay) == 0, "\(File.read(out))")
    }

    @Test func `posts no batch again whose acknowledgement was lost with the connection`() throws {
        let path = stage.redis.socketPath
        let receiver = try HTTPReceiver { _ in
            // Redis closes the connection of the relay during each post.
            let settings = QueueSettings(list: "calls", server: .unix(path: path))
            guard var client = try? RedisClient(settings: settings) else { return 500 }
            let clients = (try? client.command(["CLIENT", "LIST"]))?.text?.split(separator: "\n") ?? []
            let commands = ["xreadgroup", "xautoclaim", "xclaim", "xack"].map { " cmd=\($0)" }
            for line in clients where commands.contains(where: line.contains) {
                let id = line.split(separator: " ").first?.dropFirst("id=".count) ?? ""
                _ = try? client.command(["CLIENT", "KILL", "ID", String(id)])
            }
            return 200
        }
        try add(0..<300)
        let (relay, _, err) = try stage.start("relay", [], settings: settings(receiver))
        #expect(try waitUntil { try identifiers(receiver).count >= 300 && pending() == 0 }, "\(File.read(err))")
        #expect(identifiers(receiver) == Array(0..<300))
        #expect(stop(relay) == 0)
        #expect(identifiers(receiver) == Array(0..<300))
    }

    @Test func `a signal ends a post without a response, and the consumer leaves the group`() throws {
        let receiver = try HTTPReceiver(plan: [-1])
        let file = try settings(receiver, ["redis_lease": "600"])
        try add(0..<5)
        let (first, _, _) = try stage.start("relay", [], settings: file)
        #expect(waitUntil { receiver.requests.count == 1 })
        #expect(stop(first) == 0)
        #expect(try pending() == 5 && consumers() == [ResultsGroup.heir])
        let (second, _, _) = try stage.start("relay", [], settings: file)
        #expect(waitUntil { identifiers(receiver) == [0, 1, 2, 3, 4] })
        #expect(try waitUntil { try pending() == 0 })
        #expect(stop(second) == 0)
        #expect(try consumers() == [])
    }

    private func consumers() throws -> [String] {
        try stage.redis("XINFO", "CONSUMERS", "results", "gapless-relay").items?.compactMap { $0.items?[1].text } ?? []
    }

    @Test func `takes over an abandoned result behind 3,000 that another relay holds`() throws {
        let receiver = try HTTPReceiver()
        try stage.redis("XGROUP", "CREATE", "results", "gapless-relay", "0", "MKSTREAM")
        try add(0..<3001)
        try stage.redis("XREADGROUP", "GROUP", "gapless-relay", "other", "COUNT", "3000", "STREAMS", "results", ">")
        let last = try stage.redis("XREADGROUP", "GROUP", "gapless-relay", "dead", "COUNT", "1", "STREAMS", "results", ">")
        let id = try #require(last.items?.first?.items?.last?.items?.first?.items?.first?.text)
        try stage.redis("XCLAIM", "results", "gapless-relay", "dead", "0", id, "IDLE", "700000")
        let (relay, _, err) = try stage.start("relay", [], settings: settings(receiver, ["redis_lease": "600"]))
        #expect(waitUntil { identifiers(receiver) == [3000] }, "\(File.read(err))")
        #expect(stop(relay) == 0)
        #expect(try pending() == 3000)
    }

    @Test func `ends with 0 after a signal, also if standard output was closed at the start`() throws {
        let receiver = try HTTPReceiver()
        try add(0..<1)
        let relay = try ChildProcess("/bin/sh", ["-c", "exec \(BuiltProducts.path("gaplessd")) relay \(settings(receiver)) >&-"])
        #expect(waitUntil { identifiers(receiver) == [0] })
        #expect(stop(relay) == 0)
    }

    @Test func `sends a batch again after an error, a closed connection, or no receiver`() throws {
        var receiver: HTTPReceiver? = try HTTPReceiver(plan: [500, 0, 404, 302])
        let port = try #require(receiver?.port)
        let file = try settings(#require(receiver))
        try add(0..<3)
        let (relay, _, err) = try stage.start("relay", [], settings: file)
        #expect(waitUntil { receiver.map(identifiers) == [0, 1, 2] })
        #expect(receiver?.requests.map(\.status) == [500, 0, 404, 302, 200])
        #expect(File.read(err).contains("relay_url: response 500. 3 results not delivered"))
        receiver = nil
        try add(3..<4)
        #expect(waitUntil { File.read(err).split(separator: "\n").count == 2 }, "\(File.read(err))")
        receiver = try HTTPReceiver(port: port)
        #expect(waitUntil { receiver.map(identifiers) == [3] })
        #expect(stop(relay) == 0)
    }

    @Test func `another relay takes over after kill -9`() throws {
        let receiver = try HTTPReceiver(plan: Array(repeating: 503, count: 1000))
        let file = try settings(receiver)
        try add(0..<5)
        let (first, _, _) = try stage.start("relay", [], settings: file)
        #expect(waitUntil { receiver.requests.count >= 2 })
        first.kill(SIGKILL)
        _ = first.wait()
        #expect(try pending() == 5)
        receiver.plan([])
        let (second, _, _) = try stage.start("relay", [], settings: file)
        #expect(waitUntil { identifiers(receiver) == [0, 1, 2, 3, 4] })
        #expect(try waitUntil { try pending() == 0 })
        #expect(stop(second) == 0)
    }

    @Test func `another relay takes over at once after SIGTERM during an outage of the receiver`() throws {
        let receiver = try HTTPReceiver(plan: Array(repeating: 503, count: 1000))
        let file = try settings(receiver, ["redis_lease": "600"])
        try add(0..<5)
        let (first, _, _) = try stage.start("relay", [], settings: file)
        #expect(waitUntil { receiver.requests.count >= 2 })
        #expect(stop(first) == 0)
        #expect(try pending() == 5)
        receiver.plan([])
        let (second, _, _) = try stage.start("relay", [], settings: file)
        #expect(waitUntil { identifiers(receiver) == [0, 1, 2, 3, 4] })
        #expect(stop(second) == 0)
    }

    @Test func `two relays share the work`() throws {
        let receiver = try HTTPReceiver()
        let file = try settings(receiver, ["redis_lease": "60"])
        let relays = try (0..<2).map { _ in try stage.start("relay", [], settings: file).process }
        #expect(waitUntil { (try? stage.redis("XINFO", "GROUPS", "results").items?.count) == 1 })
        try add(0..<1000)
        #expect(waitUntil { identifiers(receiver).count >= 1000 })
        #expect(identifiers(receiver).sorted() == Array(0..<1000))
        for relay in relays { relay.kill(SIGTERM) }
        for relay in relays { #expect(relay.wait(atMost: .seconds(60))?.status == 0) }
    }

    @Test func `missing settings exit with 78, and so does a key that is no stream`() throws {
        let receiver = try HTTPReceiver()
        let none = try settings(receiver, ["relay_url": nil, "redis_results_key": nil])
        let missing = try stage.call("relay", settings: none)
        #expect(missing.status == 78)
        #expect(
            missing.errorLines.map { $0.dropFirst(none.count + 2).prefix { $0 != ":" } } == ["relay_url", "redis_results_key"])
        try stage.redis("SET", "results", "x")
        let wrong = try stage.call("relay", settings: settings(receiver))
        #expect(wrong.status == 78 && wrong.errors.contains("results"), "\(wrong.errors)")
    }
}
