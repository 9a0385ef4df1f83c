import APNSSimulator
import Glibc
import Harness
import Testing

/// A program of the system. It must exit within a minute.
enum Program {
    struct Outcome {
        var status: CInt?
        var output: String
    }

    static func run(_ command: String...) throws -> Outcome { try run(command) }

    static func run(_ command: [String]) throws -> Outcome {
        let folder = TemporaryFolder()
        let output = folder.file("output")
        let process = try ChildProcess(
            command[0], Array(command.dropFirst()), standardOutput: .file(output), standardError: .file(output))
        let status = process.wait(atMost: .seconds(60))?.status
        return Outcome(status: status, output: File.read(output))
    }
}

/// A simulator with credentials that all tests share, and nghttp as its client.
struct Fixture {
    static let credentials = Result { try Credentials.make(.init(topics: ["com.example.app", "com.example.app.voip"])) }
    static let topic = "com.example.app"
    static let deviceToken = String(repeating: "0a", count: 32)

    let simulator: Simulator
    let folder = TemporaryFolder()

    init(_ change: (inout Simulator.Configuration) -> Void = { _ in }) throws {
        let credentials = try Fixture.credentials.get()
        try credentials.write(to: folder.path)
        var configuration = Simulator.Configuration(credentials: credentials)
        change(&configuration)
        simulator = try Simulator(configuration)
    }

    static func providerToken(age: Int64 = 0, form: ProviderKey.SignatureForm = .jose) throws -> String {
        try credentials.get().providerKey.token(issuedAt: Int64(time(nil)) - age, form: form)
    }

    func url(_ token: String = Fixture.deviceToken) -> String { "https://localhost:\(simulator.port)/3/device/\(token)" }

    /// Writes a file and returns its path.
    func file(_ name: String, _ content: String) throws -> String {
        try File.write(content, to: folder.file(name))
        return folder.file(name)
    }

    /// Pushes with `nghttp -v` and returns its output without colours.
    func nghttp(
        headers: [String] = ["apns-topic: \(Fixture.topic)"], body: String = #"{"aps":{"alert":"Hello"}}"#,
        urls: [String]? = nil, auth: Bool = true, certificate: Bool = false, options: [String] = []
    ) throws -> String {
        var command = ["nghttp", "-v", "--no-dep", "-t", "10", "-d", try file("body.json", body), "-H", ":method: POST"]
        for header in headers { command += ["-H", header] }
        if auth { command += ["-H", "authorization: bearer \(try Fixture.providerToken())"] }
        if certificate { command += ["--cert", folder.file("client.pem"), "--key", folder.file("client-key.pem")] }
        return try Program.run(command + options + (urls ?? [url()])).output
            .replacing(/\u{1B}\[[0-9;]*m/, with: "")
    }
}

/// Waits for a condition for at most ten seconds.
func eventually(_ what: Comment, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () -> Bool) {
    if !waitUntil(condition) { Issue.record(what, sourceLocation: sourceLocation) }
}
