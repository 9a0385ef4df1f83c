import Foundation
import Harness
import Sockets
import Testing

@testable import APNSSimulator

/// A connection that is in nobody's way and says nothing.
private final class OpenSocket {
    let socket: Socket
    init(_ address: SocketAddress) throws { socket = try Socket(connectingTo: address) }
}

/// The program itself, as harnesses run it.
@Suite("The apns-simulator program")
struct ToolTests {
    /// It lies beside the test bundle.
    private static let path =
        Bundle.allBundles.map(\.bundleURL).first { $0.pathExtension == "xctest" }
        .map { $0.deletingLastPathComponent().appending(path: "apns-simulator").path }
        ?? URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "apns-simulator").path

    private let directory: TemporaryDirectory
    private let output = Pipe()

    init() throws { directory = try TemporaryDirectory() }

    private func start(_ options: String..., descriptors: Int? = nil) throws -> (process: Process, port: Int) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        let limit = descriptors.map { "ulimit -n \($0); " } ?? ""
        process.arguments =
            ["-c", limit + #"exec "$0" "$@""#, Self.path, "--credentials", directory.path + "/credentials"] + options
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
            "https://localhost:\(port)/3/device/\(token)"
        ).output
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
        ["--auth", "none"], ["--greeting", "x"], ["--idle", "1s"], ["--streams-walk", "1"], ["--over-limit", "x"],
        ["--connect-limit", "3"], ["--at", "0=503"], ["--connection", "0=500"], ["--every-connection", "x"], ["--every", "x"],
        ["--device", "zz=good"], ["--channel", "x"],
        ["--record-bytes", "0"], ["--goaway-every", "0"], ["--fail-times", "0"], ["--fail", "503:60%", "--fail", "500:60%"],
    ])
    func `wrong usage ends with 64 and a sentence`(options: [String]) throws {
        let outcome = try Program.run([Self.path] + options)
        #expect(outcome.status == 64)
        #expect(outcome.output.hasPrefix("Error: "), "\(outcome.output)")
    }

    /// Processor time of a process so far, in hundredths of a second (proc(5), fields 14 and 15 of stat).
    private func processorTime(_ pid: Int32) throws -> Int {
        let stat = try String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)
        let fields = stat[(stat.lastIndex(of: ")") ?? stat.startIndex)...].split(separator: " ")
        return (Int(fields[12]) ?? 0) + (Int(fields[13]) ?? 0)
    }

    @Test func `out of descriptors it sleeps, and serves who waited when some are free again`() throws {
        let (process, port) = try start(descriptors: 24)
        defer { process.terminate() }
        let address = try SocketAddress.resolve(host: "127.0.0.1", port: port)[0]
        var sockets = try (0..<40).map { _ in try OpenSocket(address) }
        let descriptors = "/proc/\(process.processIdentifier)/fd"
        eventually("all are taken") { ((try? FileManager.default.contentsOfDirectory(atPath: descriptors))?.count ?? 0) >= 24 }
        let before = try processorTime(process.processIdentifier)
        usleep(500_000)
        let used = try processorTime(process.processIdentifier) - before
        #expect(used < 12, "\(used) hundredths of a second in half a second")
        sockets.removeAll()
        #expect(try push(port, "0a0b").contains("apns-id"))
    }

    @Test(arguments: [("wrong-name", "name"), ("untrusted", "unable to get local issuer"), ("expired", "expired")])
    func `a server certificate with a flaw is refused by who looks at it`(flaw: String, words: String) throws {
        let target = directory.path + "/credentials"
        #expect(try Program.run(Self.path, "make-credentials", target, "--server", flaw).status == 0)
        let (process, port) = try start()
        defer { process.terminate() }
        let seen = try Program.run(
            "sh", "-c",
            "openssl s_client -connect localhost:\(port) -verify_hostname localhost -CAfile \(target)/ca.pem -alpn h2 </dev/null"
        )
        .output
        let verdict = seen.split(separator: "\n").filter { $0.contains("Verif") || $0.contains("verif") }.joined(separator: " ")
        #expect(!verdict.contains("return code: 0"), "\(verdict)")
        #expect(flaw == "wrong-name" ? verdict.lowercased().contains("hostname mismatch") : verdict.contains(words), "\(verdict)")
    }

    @Test func `credentials are not overwritten unless told`() throws {
        let target = directory.path + "/made"
        #expect(try Program.run(Self.path, "make-credentials", target).status == 0)
        #expect(try Program.run(Self.path, "make-credentials", target).status == 64)
        #expect(try Program.run(Self.path, "make-credentials", target, "--force").status == 0)
    }

    @Test func `every option that docs/simulator.md shows is understood`() throws {
        let text = Checkout.read("docs/simulator.md")
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("| ") }
        let calls = rows.flatMap { $0.matches(of: /`(--[^`]+)`/).map { String($0.1) } }
        #expect(calls.count > 20)
        for call in calls {
            let outcome = try Program.run([Self.path] + call.split(separator: " ").map(String.init) + ["--port", "70000"])
            #expect(outcome.output.contains("--port is 0 to 65535"), "\(call): \(outcome.output)")
        }
    }

    @Test func `the help shows examples that its own options understand`() throws {
        let help = try Program.run(Self.path, "serve", "--help").output
        for word in ["--fail", "--dead", "--latency", "--token", "--ledger", "cut-after", "SIGUSR1", "EXIT STATUS"] {
            #expect(help.contains(word))
        }
        let examples = help.split(separator: "\n").filter { $0.hasPrefix("    apns-simulator ") }
        #expect(examples.count == 5)
        for example in examples {
            let options = example.split(separator: " ").dropFirst().map(String.init)
            // A port that is no port is the last thing wrong with it.
            let outcome = try Program.run([Self.path] + options + ["--port", "70000"])
            #expect(outcome.output.contains("--port is 0 to 65535"), "\(example): \(outcome.output)")
        }
    }
}
