import Foundation
import Testing

@testable import FrostAlert

@Suite("The requests of the app")
struct RouteTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase() }

    private static let location =
        #"{"token": "0A1B2C", "location": {"latitude": 52.52, "longitude": 13.405, "name": "Berlin", "unit": "celsius"}}"#

    private func status(_ path: String, _ body: String) async throws -> Int? {
        try await TestServer.run(DeviceRoutes(devices: database.devices).router()) { try await $0.post(path, body) }
    }

    @Test func `are 201 the first and every other time`() async throws {
        for _ in 0..<2 {
            #expect(try await status("/register", #"{"token": "0a1b2c"}"#) == 201)
            #expect(try await status("/add_location", Self.location) == 201)
        }
        #expect(try await database.values("SELECT token FROM device") == ["0a1b2c"])
        #expect(try await database.values("SELECT name FROM watch") == ["Berlin"])
        for _ in 0..<2 { #expect(try await status("/remove_location", Self.location) == 201) }
        #expect(try await database.values("SELECT name FROM watch") == [])
        #expect(try await database.values("SELECT token FROM device") == ["0a1b2c"])
    }

    @Test(arguments: ["", "[]", "{}", #"{"token": 7}"#, #"{"token": ""}"#, #"{"token": "xyz"}"#, #"{"token": "ab""#])
    func `are 400 with an invalid token`(body: String) async throws {
        for path in ["/register", "/add_location", "/remove_location"] {
            #expect(try await status(path, body) == 400, "\(path)")
        }
        #expect(try await database.values("SELECT token FROM device") == [])
    }

    @Test(arguments: [
        (#""latitude": 52.52"#, #""latitude": 90.1"#), (#""latitude": 52.52"#, #""latitude": "52 N""#),
        (#""latitude": 52.52"#, #""latitude": "nan""#), (#""latitude": 52.52"#, #""latitude": "91""#),
        (#""latitude": 52.52"#, #""latitude": """#), (#""latitude": 52.52"#, #""latitude": true"#),
        (#""longitude": 13.405"#, #""longitude": -181"#), (#""longitude": 13.405, "#, ""),
        (#""name": "Berlin""#, #""name": """#), (#""name": "Berlin""#, #""name": "a\u0000b""#), (#""name": "Berlin", "#, ""),
        (#""unit": "celsius""#, #""unit": "kelvin""#), (#"location"#, #"place"#),
    ])
    func `are 400 with an invalid location`(part: String, replacement: String) async throws {
        let body = Self.location.replacing(part, with: replacement)
        #expect(body != Self.location)
        #expect(try await status("/add_location", body) == 400)
        #expect(try await database.values("SELECT token FROM device") == [])
    }

    @Test func `take coordinates as numbers and as strings, as the original app sends them`() async throws {
        let body = Self.location.replacing("52.52", with: "\"52.52\"").replacing("13.405", with: "\"13.405\"")
        #expect(try await status("/add_location", body) == 201)
        #expect(try await database.values("SELECT latitude || ' ' || longitude FROM watch") == ["52.52 13.405"])
        #expect(try await status("/remove_location", Self.location) == 201)
        #expect(try await database.values("SELECT name FROM watch") == [])
    }

    @Test func `are 413 with a large body and 404 at other paths`() async throws {
        #expect(try await status("/register", String(repeating: " ", count: 20_000)) == 413)
        #expect(try await status("/unregister", "{}") == 404)
    }
}
