import Foundation
import FoundationNetworking
import Hummingbird
import Logging
import ServiceLifecycle

/// An HTTP server on a free port of 127.0.0.1.
struct TestServer: Sendable {
    private let port: Int

    var url: String { "http://127.0.0.1:\(port)" }

    /// Serves the routes until `body` returns.
    static func run<Value: Sendable>(
        _ router: Router<BasicRequestContext>, _ body: (TestServer) async throws -> Value
    ) async throws -> Value {
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let logger = Logger(label: "test")
        let application = Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { port.yield($0.localAddress?.port ?? 0) }, logger: logger)
        let group = ServiceGroup(configuration: ServiceGroupConfiguration(services: [application], logger: logger))
        async let end: Void = {
            defer { port.finish() }
            try await group.run()
        }()
        let result: Result<Value, any Error>
        do {
            result = .success(try await body(TestServer(port: await ports.first { _ in true } ?? 0)))
        } catch {
            result = .failure(error)
        }
        await group.triggerGracefulShutdown()
        try await end
        return try result.get()
    }

    /// Returns the status of the response.
    func post(_ path: String, _ body: String) async throws -> Int? {
        guard let url = URL(string: url + path) else { throw URLError(.badURL) }
        var request = URLRequest(url: url)
        request.httpMethod = "POST"
        request.httpBody = Data(body.utf8)
        return (try await URLSession.shared.data(for: request).1 as? HTTPURLResponse)?.statusCode
    }
}
