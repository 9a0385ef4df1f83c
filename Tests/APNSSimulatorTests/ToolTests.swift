import Foundation
import Testing

@testable import APNSSimulator

/// The program itself, as harnesses run it.
@Suite("The apns-simulator program")
struct ToolTests {
    /// It lies beside the test bundle.
    private static let path = Bundle.allBundles.map(\.bundleURL).first { $0.pathExtension == "xctest" }
        .map { $0.deletingLastPathComponent().appending(path: "apns-simulator").path }
        ?? URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "apns-simulator").path

    private let directory: TemporaryDirectory
    private let output = Pipe()

    init() throws { directory = try TemporaryDirectory() }

    private func start(_ options: String...) throws -> (process: Process, port: Int) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: Self.path)
        process.arguments = ["--credentials", directory.path + "/credentials"] + options
        process.standardOutput = output
        try process.run()
        let first = line()
        guard let port = first.split(separator: ":").last.flatMap({ Int($0) }) else {
            process.terminate()
            throw SimulatorError("no port in '\(first)'")
        }
        #expect(first == "listening on 127.0.0.1:\(port)")
        #expect(line().hasPrefix("seed "))
        return (process, port)
    }

    private func line() -> String {
        var bytes: [UInt8] = []
        while let byte = try? output.fileHandleForReading.read(upToCount: 1)?.first, byte != 10 { bytes.append(byte) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func push(_ port: Int, _ token: String) throws -> String {
        let bearer = try Program.run(Self.path, "provider-token", directory.path + "/credentials").output
            .trimmingCharacters(in: .whitespacesAndNewlines)
        return try Program.run(
            "nghttp", "-v", "--no-dep", "-d", try directory.file("body", "{}"), "-H", ":method: POST",
            "-H", "apns-topic: com.example.app", "-H", "authorization: bearer \(bearer)",
            "https://localhost:\(port)/3/device/\(token)").output
    }

    @Test func `serves, counts, keeps its ledger and says so at the end`() throws {
        let ledger = directory.path + "/ledger"
        let (process, port) = try start("--token", "dead=503,200", "--ledger", ledger)
        defer { process.terminate() }
        #expect(try push(port, "dead01").contains("ServiceUnavailable"))
        #expect(try push(port, "dead01").contains("apns-id"))
        kill(process.processIdentifier, SIGUSR1)
        let now = line()
        #expect(now.contains(#""requests":2,"accepted":1,"answers":{"200":1,"503 ServiceUnavailable":1}"#), "\(now)")
        process.terminate()
        #expect(line().hasPrefix(#"{"requests":2,"accepted":1,"#))
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == 0)
        let lines = try String(contentsOfFile: ledger, encoding: .utf8).split(separator: "\n").map { $0.split(separator: " ") }
        #expect(lines.map { $0[0] } == ["503", "200"])
        #expect(lines.allSatisfy { $0.count == 4 && $0[1] == "dead01" && $0[3].count == 64 })
    }

    @Test func `the ledger file is written while it serves`() throws {
        let ledger = directory.path + "/ledger"
        let (process, port) = try start("--ledger", ledger)
        defer { process.terminate() }
        _ = try push(port, "0a0b")
        eventually("the line is there") { (try? String(contentsOfFile: ledger, encoding: .utf8))?.hasPrefix("200 0a0b ") == true }
    }

    @Test(arguments: [
        ["--fail", "nonsense"], ["--dead", "200%"], ["--latency", "2ms..1ms"], ["--token", "x"], ["--port", "70000"],
        ["--auth", "none"], ["--fail-times", "0"], ["--fail", "503:60%", "--fail", "500:60%"],
    ])
    func `wrong usage ends with 64 and a sentence`(options: [String]) throws {
        let outcome = try Program.run([Self.path] + options)
        #expect(outcome.status == 64)
        #expect(outcome.output.hasPrefix("Error: "), "\(outcome.output)")
    }

    @Test func `credentials are not overwritten unless told`() throws {
        let target = directory.path + "/made"
        #expect(try Program.run(Self.path, "make-credentials", target).status == 0)
        #expect(try Program.run(Self.path, "make-credentials", target).status == 64)
        #expect(try Program.run(Self.path, "make-credentials", target, "--force").status == 0)
    }

    @Test func `the help shows examples that its own options understand`() throws {
        let help = try Program.run(Self.path, "serve", "--help").output
        for word in ["--fail", "--dead", "--latency", "--token", "--ledger", "cut-after", "SIGUSR1"] {
            #expect(help.contains(word))
        }
    }
}
