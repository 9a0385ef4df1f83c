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
}
