import APNSClient
import Clocks
import Collections
import Foundation

/// Sends many pushes to a simulator, each with `await`, and prints rate, processor time and memory.
@main
struct Load {
    static func main() async throws {
        let options = Options(CommandLine.arguments)
        let key = try String(contentsOfFile: options.credentials + "/AuthKey_SIMKEY0001.p8", encoding: .utf8)
        var configuration = APNSConfiguration(
            server: .host("localhost", port: options.port),
            authentication: .signingKey(pem: key, keyID: "SIMKEY0001", teamID: "SIMTEAM001"), topic: "com.example.app")
        configuration.extraRootsPath = options.credentials + "/ca.pem"
        let client = try APNSClient(configuration)
        try await client.start()
        let start = Date()
        let accepted = try await options.isSequence ? sequence(client, options) : tasks(client, options)
        let seconds = -start.timeIntervalSinceNow
        await client.shutdown()
        guard accepted == options.count else { fatalError("\(accepted) of \(options.count) pushes were accepted") }
        print(
            "\(options.count) pushes, \(Int(Double(options.count) / seconds)) per second,",
            "\(processorTime(options.count)) us CPU each"
        )
        print("peak memory \(peakKilobytes() / 1024) MiB")
    }

    private static func push(_ number: Int) throws(APNSError) -> Push {
        let token = String(repeating: "ab", count: 24) + String(format: "%016x", number)
        let text = #"{"aps":{"alert":{"title":"Frost Alert","body":"\#(String(repeating: "x", count: 140))"}}}"#
        var push = try Push(to: .device(token), json: Array(text.utf8))
        push.expiration = .at(unixSeconds: 2_000_000_000)
        return push
    }

    /// A fixed number of tasks, each of which waits for one push after the other.
    private static func tasks(_ client: APNSClient, _ options: Options) async throws -> Int {
        let first = try push(0)
        return try await withThrowingTaskGroup(of: Int.self) { group in
            for task in 0..<options.tasks {
                group.addTask {
                    var accepted = 0
                    for number in stride(from: task, to: options.count, by: options.tasks) {
                        _ = try await client.send(first.addressed(to: target(number)))
                        accepted += 1
                    }
                    return accepted
                }
            }
            return try await group.reduce(0, +)
        }
    }

    private static func sequence(_ client: APNSClient, _ options: Options) async throws -> Int {
        let first = try push(0)
        var accepted = 0
        let pushes = (0..<options.count).lazy.map { try! first.addressed(to: target($0)) }
        for await result in client.results(ofSending: pushes, atMost: options.tasks) {
            _ = try result.result.get()
            accepted += 1
        }
        return accepted
    }

    /// A token of 64 digits that ends with the number.
    private static func target(_ number: Int) -> Push.Target {
        withUnsafeBytes(of: number.bigEndian) { .device(Deque(repeating: 0xAB, count: 24) + Deque($0)) }
    }

    private static func processorTime(_ count: Int) -> String {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        let micros = 1_000_000 * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec
        return String(format: "%.2f", Double(micros) / Double(count))
    }

    private static func peakKilobytes() -> Int {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return usage.ru_maxrss
    }
}

/// `--port PORT --credentials FOLDER [--count N] [--tasks N] [--sequence]`
struct Options: Sendable {
    var port = 0
    var credentials = "."
    var count = 100_000
    var tasks = 1000
    var isSequence = false

    init(_ arguments: [String]) {
        var arguments = arguments.dropFirst()[...]
        while let option = arguments.popFirst() {
            switch option {
            case "--port": port = arguments.popFirst().flatMap { Int($0) } ?? 0
            case "--credentials": credentials = arguments.popFirst() ?? "."
            case "--count": count = arguments.popFirst().flatMap { Int($0) } ?? count
            case "--tasks": tasks = arguments.popFirst().flatMap { Int($0) } ?? tasks
            case "--sequence": isSequence = true
            default: fatalError("unknown option \(option)")
            }
        }
    }
}
