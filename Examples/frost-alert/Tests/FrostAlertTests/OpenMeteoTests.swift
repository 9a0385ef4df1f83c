import Foundation
import Hummingbird
import Synchronization
import Testing

@testable import FrostAlert

@Suite("The forecast service")
struct OpenMeteoTests {
    private final class Queries: Sendable {
        let all = Mutex<[String]>([])
    }

    @Test func `is asked for the hourly temperatures of three days`() async throws {
        let queries = Queries()
        let router = Router()
        router.get("v1/forecast") { request, _ in
            queries.all.withLock { $0.append(request.uri.query ?? "") }
            return ByteBuffer(bytes: Fixture.berlin)
        }
        try await TestServer.run(router) { server in
            let forecast = try await OpenMeteo(base: server.url).forecast(for: Fixture.place)
            #expect(forecast.hours.count == 72)
        }
        #expect(
            queries.all.withLock { $0 } == [
                "latitude=52.52&longitude=13.405&hourly=temperature_2m&forecast_days=3&timezone=auto"
            ])
    }

    @Test func `a status other than 200, or another body, is an error`() async throws {
        let router = Router()
        router.get("v1/forecast") { request, _ in
            let isRefused = request.uri.queryParameters["latitude"] == "0.0"
            return Response(
                status: isRefused ? .tooManyRequests : .ok,
                body: ResponseBody(byteBuffer: ByteBuffer(string: #"{"error": true}"#)))
        }
        try await TestServer.run(router) { server in
            let service = OpenMeteo(base: server.url)
            await #expect(throws: OpenMeteo.BadStatus.self) { try await service.forecast(for: Place(latitude: 0, longitude: 0)!) }
            await #expect(throws: DecodingError.self) { try await service.forecast(for: Fixture.place) }
        }
    }

    @Test func `a body of at most 1 MiB is read, and a larger one is refused before its end`() async throws {
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        let router = Router()
        router.get("v1/forecast") { request, _ in
            let isTooLarge = request.uri.queryParameters["latitude"] == "0.0"
            return Response(
                status: .ok,
                body: ResponseBody { writer in
                    // Spaces before a JSON value are allowed.
                    let padding = OpenMeteo.mostBytes - Fixture.berlin.count + (isTooLarge ? 1 : 0)
                    try await writer.write(ByteBuffer(repeating: UInt8(ascii: " "), count: padding))
                    try await writer.write(ByteBuffer(bytes: Fixture.berlin))
                    // Without an end of the body until the client has given up.
                    if isTooLarge { for await _ in ends {} }
                    try await writer.finish(nil)
                })
        }
        try await TestServer.run(router) { server in
            let service = OpenMeteo(base: server.url)
            let forecast = try await service.forecast(for: Fixture.place)
            #expect(forecast.hours.count == 72)
            let endless = Place(latitude: 0, longitude: 0)!
            await #expect(throws: BoundedLoad.TooLarge.self) { try await service.forecast(for: endless) }
            end.finish()
        }
    }

    @Test func `a request ends at once when its task is cancelled`() async throws {
        let router = Router()
        let (requests, request) = AsyncStream.makeStream(of: Void.self)
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        router.get("v1/forecast") { _, _ in
            request.yield()
            // Without a response until the client has given up.
            for await _ in ends {}
            return HTTPResponse.Status.ok
        }
        try await TestServer.run(router) { server in
            let task = Task { try await OpenMeteo(base: server.url).forecast(for: Fixture.place) }
            _ = await requests.first { true }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            end.finish()
        }
    }
}
