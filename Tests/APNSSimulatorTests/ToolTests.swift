import Glibc
import Harness
import Platform
import Testing

@testable import APNSSimulator

@Suite("The apns-simulator program")
struct ToolTests {
    private static let path = BuiltProducts.path("apns-simulator")

    private let folder = TemporaryFolder()
    private var credentials: String { folder.file("credentials") }

    /// A running program and the file of its standard output.
    private struct Started {
        var process: ChildProcess
        var port: Int
        var output: String

        var lines: [Substring] { File.read(output).split(separator: "\n") }
    }

    private func start(_ options: String..., descriptors: Int? = nil) throws -> Started {
        let limit = descriptors.map { "ulimit -n \($0); " } ?? ""
        let output = folder.file("output")
        let process = try ChildProcess(
            "/bin/sh", ["-c", limit + #"exec "$0" "$@""#, Self.path, "--credentials", credentials] + options,
            standardOutput: .file(output))
        var tool = Started(process: process, port: 0, output: output)
        eventually("the program prints two lines") { tool.lines.count == 2 }
        tool.port = try #require(tool.lines.first?.split(separator: ":").last.flatMap { Int($0) })
        #expect(tool.lines[0] == "listening on 127.0.0.1:\(tool.port)")
        #expect(tool.lines[1].hasPrefix("seed "))
        return tool
    }

    private func push(_ port: Int, _ token: String, bearer given: String? = nil) throws -> String {
        let made = try Program.run(Self.path, "provider-token", credentials).output.split(separator: "\n").first ?? ""
        let bearer = given ?? String(made)
        try File.write("{}", to: folder.file("body"))
        return try Program.run(
            "nghttp", "-v", "--no-dep", "-d", folder.file("body"), "-H", ":method: POST", "-H", "apns-topic: com.example.app",
            "-H", "authorization: bearer \(bearer)", "https://localhost:\(port)/3/device/\(token)"
        ).output
    }

    @Test func `a rotation of the signing key can be rehearsed`() throws {
        let both = try start("--signing-key", "SIMKEY0002")
        #expect(try push(both.port, "aa01").contains(":status: 200"))
        both.process.kill(SIGTERM)
        _ = both.process.wait(atMost: .seconds(10))
        #expect(File.read("\(credentials)/AuthKey_SIMKEY0002.p8").hasPrefix("-----BEGIN PRIVATE KEY-----"))
        // The next start knows both keys, and refuses the old one.
        #expect(unlink(folder.file("output")) == 0)
        let revoked = try start("--refuse", "SIMKEY0001=InvalidProviderToken")
        #expect(try push(revoked.port, "aa01").contains("InvalidProviderToken"))
        let new = try #require(try Credentials(directory: credentials).otherKeys.first)
        let token = try new.token(issuedAt: Int64(time(nil)))
        #expect(try push(revoked.port, "aa01", bearer: token).contains(":status: 200"))
        revoked.process.kill(SIGTERM)
        _ = revoked.process.wait(atMost: .seconds(10))
    }

    @Test func `serves, counts and writes its ledger`() throws {
        let ledger = folder.file("ledger")
        let tool = try start("--token", "dead=503,200", "--ledger", ledger)
        #expect(try push(tool.port, "dead01").contains("ServiceUnavailable"))
        #expect(try push(tool.port, "dead01").contains("apns-id"))
        tool.process.kill(SIGUSR1)
        eventually("the counters are printed") { tool.lines.count == 3 }
        let counters = tool.lines.last ?? ""
        #expect(counters.contains(#""requests":2,"accepted":1,"answers":{"200":1,"503 ServiceUnavailable":1}"#), "\(counters)")
        tool.process.kill(SIGTERM)
        #expect(tool.process.wait(atMost: .seconds(10))?.status == 0)
        #expect(tool.lines.count == 4 && tool.lines[3].hasPrefix(#"{"requests":2,"accepted":1,"#))
        let lines = File.read(ledger).split(separator: "\n").map { $0.split(separator: " ") }
        #expect(lines.map { $0[0] } == ["503", "200"])
        #expect(lines.allSatisfy { $0.count == 4 && $0[1] == "dead01" && $0[3].count == 64 })
    }

    @Test func `the certificate has the names of the command line`() throws {
        let tool = try start("--name", "simulator", "--name", "10.0.0.7")
        let text = try Program.run("openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", "\(credentials)/server.pem")
            .output
        #expect(text.contains("DNS:localhost, ") && text.contains("DNS:simulator, IP Address:10.0.0.7"), "\(text)")
        tool.process.kill(SIGTERM)
        #expect(tool.process.wait(atMost: .seconds(10))?.status == 0)
    }

    @Test func `writes the ledger file while it serves`() throws {
        let ledger = folder.file("ledger")
        let tool = try start("--ledger", ledger)
        _ = try push(tool.port, "0a0b")
        eventually("the line is in the file") { File.read(ledger).hasPrefix("200 0a0b ") }
    }

    @Test(arguments: [
        ["--fail", "nonsense"], ["--dead", "200%"], ["--latency", "2ms..1ms"], ["--token", "x"], ["--port", "70000"],
        ["--auth", "none"], ["--greeting", "x"], ["--idle", "1s"], ["--streams-walk", "1"], ["--over-limit", "x"],
        ["--connect-limit", "3"], ["--at", "0=503"], ["--connection", "0=500"], ["--every-connection", "x"], ["--every", "x"],
        ["--device", "zz=good"], ["--channel", "x"],
        ["--record-bytes", "0"], ["--goaway-every", "0"], ["--fail-times", "0"], ["--fail", "503:60%", "--fail", "500:60%"],
    ])
    func `exits with 64 and a message on wrong usage`(options: [String]) throws {
        let outcome = try Program.run([Self.path] + options)
        #expect(outcome.status == 64)
        #expect(outcome.output.hasPrefix("Error: "), "\(outcome.output)")
    }

    /// The number of times that the threads of a process have slept (proc(5)).
    private func sleeps(_ pid: CInt) -> Int {
        folderEntries("/proc/\(pid)/task").reduce(0) { sum, thread in
            let status = File.read("/proc/\(pid)/task/\(thread)/status").split(separator: "\n")
            let line = status.first { $0.hasPrefix("voluntary_ctxt_switches:") }
            return sum + (line?.split(separator: "\t").last.flatMap { Int($0) } ?? 0)
        }
    }

    @Test func `sleeps without free descriptors, and serves the waiting client later`() throws {
        let tool = try start(descriptors: 24)
        let address = try SocketAddress.resolve(host: "127.0.0.1", port: tool.port)[0]
        var sockets = try (0..<40).map { _ in try OpenSocket(address) }
        eventually("all descriptors are used") { folderEntries("/proc/\(tool.process.pid)/fd").count >= 24 }
        // A loop that polls the listener continuously never sleeps.
        let before = sleeps(tool.process.pid)
        eventually("the program sleeps") { sleeps(tool.process.pid) >= before + 20 }
        sockets.removeAll()
        #expect(try push(tool.port, "0a0b").contains("apns-id"))
    }

    /// A connection that sends nothing.
    private final class OpenSocket {
        let socket: Socket
        init(_ address: SocketAddress) throws { socket = try Socket(connectingTo: address) }
    }

    @Test(arguments: [("wrong-name", "name"), ("untrusted", "unable to get local issuer"), ("expired", "expired")])
    func `a client rejects a server certificate with a flaw`(flaw: String, words: String) throws {
        let target = credentials
        #expect(try Program.run(Self.path, "make-credentials", target, "--server", flaw).status == 0)
        let tool = try start()
        let seen = try Program.run(
            "sh", "-c",
            "openssl s_client -connect localhost:\(tool.port) -verify_hostname localhost -CAfile \(target)/ca.pem -alpn h2 "
                + "</dev/null"
        ).output
        let verdict = seen.split(separator: "\n").filter { $0.contains("Verif") || $0.contains("verif") }.joined(separator: " ")
        #expect(!verdict.contains("return code: 0"), "\(verdict)")
        #expect(flaw == "wrong-name" ? verdict.lowercased().contains("hostname mismatch") : verdict.contains(words), "\(verdict)")
    }

    @Test func `replaces credentials only with --force`() throws {
        let target = folder.file("made")
        #expect(try Program.run(Self.path, "make-credentials", target).status == 0)
        #expect(try Program.run(Self.path, "make-credentials", target).status == 64)
        #expect(try Program.run(Self.path, "make-credentials", target, "--force").status == 0)
    }

    @Test func `accepts every option of docs/simulator.md`() throws {
        let text = Checkout.read("docs/simulator.md")
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("| ") }
        let calls = rows.flatMap { $0.matches(of: /`(--[^`]+)`/).map { String($0.1) } }
        #expect(calls.count > 20)
        for call in calls {
            let outcome = try Program.run([Self.path] + call.split(separator: " ").map(String.init) + ["--port", "70000"])
            #expect(outcome.output.contains("--port must be 0 to 65535"), "\(call): \(outcome.output)")
        }
    }

    @Test func `accepts the examples of its help`() throws {
        let help = try Program.run(Self.path, "serve", "--help").output
        for word in ["--fail", "--dead", "--latency", "--token", "--ledger", "cut-after", "SIGUSR1", "EXIT STATUS"] {
            #expect(help.contains(word))
        }
        let examples = help.split(separator: "\n").filter { $0.hasPrefix("    apns-simulator ") }
        #expect(examples.count == 7)
        for example in examples {
            let options = example.split(separator: " ").dropFirst().map(String.init)
            // The invalid port is the last fault that is reported.
            let outcome = try Program.run([Self.path] + options + ["--port", "70000"])
            #expect(outcome.output.contains("--port must be 0 to 65535"), "\(example): \(outcome.output)")
        }
    }
}
