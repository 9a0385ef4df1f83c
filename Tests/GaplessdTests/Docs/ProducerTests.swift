import APNSSimulator
import Harness
import RedisQueue
import Testing

/// Runs the files of Examples/producers. `make producers` installs what they need.
@Suite("Examples/producers", .blocking)
struct ProducerTests {
    struct Producer: Sendable, CustomTestStringConvertible {
        var file: String
        var command: [String]
        /// Succeeds where the language and its Redis client are installed.
        var probe: [String]
        var testDescription: String { file }

        var isAvailable: Bool {
            guard let process = try? ChildProcess(probe[0], Array(probe.dropFirst())) else { return false }
            return process.wait(atMost: .seconds(60))?.status == 0
        }
    }

    private static let producers = [
        Producer(file: "push.sh", command: ["sh"], probe: ["redis-cli", "--version"]),
        Producer(file: "push.py", command: ["/usr/bin/python3"], probe: ["/usr/bin/python3", "-c", "import redis"]),
        Producer(file: "push.rb", command: ["ruby"], probe: ["ruby", "-e", "require 'redis'"]),
        Producer(file: "push.js", command: ["node"], probe: ["env", "NODE_PATH=\(modules)", "node", "-e", "require('redis')"]),
        Producer(file: "push.php", command: ["php"], probe: ["php", "-r", "exit(class_exists('Redis') ? 0 : 1);"]),
        Producer(
            file: "go/push.go", command: ["go", "run"],
            probe: ["sh", "-c", "cd '\(scripts)/go' && go list github.com/redis/go-redis/v9"]),
        Producer(file: "swift/Sources/push/Push.swift", command: [BuiltProducts.path("swift-producer")], probe: ["true"]),
    ]

    /// Debian's folder of Node modules, for a node that is not Debian's.
    private static let modules = "/usr/share/nodejs"
    private static let scripts = "\(Checkout.path)/Examples/producers"

    @Test(arguments: producers.filter(\.isAvailable))
    func `its jobs reach APNs, and it reads the feedback`(producer: Producer) throws {
        let port = FreePort.pick()
        let stage = try Stage(redis: ["--port", "\(port)"])
        let daemon = try stage.start()
        let feedback = #"{"token": "0f", "reason": "Unregistered", "status": 410, "verdict": "dead"}"#
        try stage.command("RPUSH", stage.keys.feedback, feedback)
        let output = stage.folder.file("producer")
        let process = try ChildProcess(
            producer.command[0], producer.command.dropFirst() + ["\(Self.scripts)/\(producer.file)"],
            environment: [
                "REDIS_PORT": "\(port)", "QUEUE": Stage.list, "TOKEN": "0a1b2c", "AUDIENCE": "3", "NODE_PATH": Self.modules,
            ],
            standardOutput: .file(output), standardError: .file(output))
        #expect(process.wait(atMost: .seconds(120))?.status == 0, "\(File.read(output))")
        #expect(File.read(output).contains("Unregistered"))
        #expect(stage.accepts(8), "\(daemon.standardError)")
        let entries = stage.simulator.ledger.entries
        #expect(entries.compactMap(\.pushType).sorted() == Array(repeating: "alert", count: 6) + ["background", "liveactivity"])
        #expect(
            Set(entries.map(\.token))
                == Set(["0a1b2c", "0a1b2c00"] + (0..<3).map { String(repeating: "0", count: 63) + "\($0)" }))
        #expect(try stage.drains())
        #expect(try stage.command("LLEN", stage.keys.feedback).integer == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `the documentation quotes the producer in Python`() throws {
        let page = Checkout.read("docs/jobs.md")
        let quote = try #require(page.split(separator: "<!-- push.py:").last?.split(separator: "<!-- end of push.py -->").first)
        let lines = quote.split(separator: "\n").dropFirst().filter { !$0.hasPrefix("```") }
        #expect(lines.count > 8)
        let source = Set(Checkout.read("Examples/producers/push.py").split(separator: "\n"))
        for line in lines { #expect(source.contains(line), "\(line)") }
    }

    @Test func `every file shows the six uses`() {
        for file in Self.producers.map(\.file) {
            let source = Checkout.read("Examples/producers/\(file)")
            for use in ["content-available", "tokens", "tokens_from", "liveactivity", "gapless:feedback", "alert"] {
                #expect(source.contains(use), "\(file): \(use)")
            }
        }
    }
}
