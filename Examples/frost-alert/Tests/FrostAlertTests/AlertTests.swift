import Foundation
import Testing

@testable import FrostAlert

@Suite("An alert")
struct AlertTests {
    private var alert = Alert(number: 7, cycle: 3, token: Fixture.token, location: Fixture.location, frost: Fixture.frost)

    @Test func `becomes a job for gaplessd`() throws {
        #expect(
            try alert.job == """
                {"collapse_id":"frost 52.52,13.405","data":{"aps":{"alert":{"body":"Down to 2 °C on Wednesday at 05:00.",\
                "subtitle":"Frost Alert for Berlin","title":"Frost"},"sound":"default"}},"expires_at":1795579200,\
                "identifier":7,"push_type":"alert","token":"0a1b2c","trace":"frost cycle 3"}
                """)
        #expect(Fixture.frost.time.timeIntervalSince1970 == 1_795_579_200)
    }

    @Test mutating func `shows degrees in the unit of the device`() throws {
        alert.location.unit = .fahrenheit
        #expect(try alert.job.contains("Down to 35 °F on"))
        alert.frost.celsius = -0.4
        #expect(try alert.job.contains("Down to 31 °F on"))
        alert.location.unit = .celsius
        #expect(try alert.job.contains("Down to 0 °C on"))
    }

    @Test mutating func `has a collapse id of at most 64 bytes and a payload of at most 4096 at any place`() throws {
        alert.location.place = Place(latitude: -89.99994, longitude: -179.99994)!
        alert.location.name = String(repeating: "\u{2028}", count: Location.mostNameBytes / 3)
        let job = try JSONSerialization.jsonObject(with: Data(alert.job.utf8)) as? [String: Any]
        #expect((job?["collapse_id"] as? String)?.utf8.count ?? 65 <= 64)
        #expect(try alert.job.utf8.count < 4096)
    }
}
