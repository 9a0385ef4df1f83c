import APNSSimulator
import Clocks
import Foundation
import Testing

/// A directory that goes with its last user.
final class TemporaryDirectory: Sendable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.appending(path: "simulator-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String, _ content: String = "") throws -> String {
        let file = "\(path)/\(name)"
        try content.write(toFile: file, atomically: false, encoding: .utf8)
        return file
    }
}

/// A program of the system that must end within a minute.
enum Program {
    struct Outcome {
        var status: Int32
        var output: String
    }

    static func run(_ command: String...) throws -> Outcome { try run(command) }

    static func run(_ command: [String]) throws -> Outcome {
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        process.standardOutput = pipe
        process.standardError = pipe
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let watchdog = DispatchWorkItem { process.terminate() }
        DispatchQueue.global().asyncAfter(deadline: .now() + 60, execute: watchdog)
        let bytes = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        watchdog.cancel()
        return Outcome(status: process.terminationStatus, output: String(decoding: bytes, as: UTF8.self))
    }
}

/// A simulator with credentials that are made once for all tests, and nghttp as its client.
struct Fixture {
    static let credentials = Result { try Credentials.make(.init(topics: ["com.example.app", "com.example.app.voip"])) }
    static let topic = "com.example.app"
    static let deviceToken = String(repeating: "0a", count: 32)

    let simulator: Simulator
    let directory: TemporaryDirectory

    init(_ change: (inout Simulator.Configuration) -> Void = { _ in }) throws {
        let credentials = try Fixture.credentials.get()
        directory = try TemporaryDirectory()
        try credentials.write(to: directory.path)
        var configuration = Simulator.Configuration(credentials: credentials)
        change(&configuration)
        simulator = try Simulator(configuration)
    }

    static func providerToken(age: Int64 = 0, form: ProviderKey.SignatureForm = .jose) throws -> String {
        try credentials.get().providerKey.token(issuedAt: Int64(Date.now.timeIntervalSince1970) - age, form: form)
    }

    func url(_ token: String = Fixture.deviceToken) -> String { "https://localhost:\(simulator.port)/3/device/\(token)" }

    /// Pushes with `nghttp -v` and returns what it saw, without the colours.
    func nghttp(
        headers: [String] = ["apns-topic: \(Fixture.topic)"], body: String = #"{"aps":{"alert":"Hello"}}"#,
        urls: [String]? = nil, auth: Bool = true, certificate: Bool = false, options: [String] = []
    ) throws -> String {
        var command = [
            "nghttp", "-v", "--no-dep", "-t", "10", "-d", try directory.file("body.json", body), "-H", ":method: POST",
        ]
        for header in headers { command += ["-H", header] }
        if auth { command += ["-H", "authorization: bearer \(try Fixture.providerToken())"] }
        if certificate {
            command += ["--cert", "\(directory.path)/client.pem", "--key", "\(directory.path)/client-key.pem"]
        }
        return try Program.run(command + options + (urls ?? [url()])).output
            .replacing(/\u{1B}\[[0-9;]*m/, with: "")
    }
}

/// Waits for a condition, ten seconds at most.
func eventually(_ what: Comment, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () -> Bool) {
    let deadline = Instant.now + .seconds(10)
    while !condition() {
        guard Instant.now < deadline else {
            Issue.record(what, sourceLocation: sourceLocation)
            return
        }
        usleep(1000)
    }
}
