import APNSSimulator
import Glibc
import Harness
import PushPool
import Testing

@testable import Platform
@testable import gaplessd

@Suite("Limits of the fleet that a reload adds")
struct FleetTests {
    private let folder = TemporaryFolder()

    private func load(_ members: String) throws -> Configuration {
        let file = folder.file("settings.json")
        try File.write(
            #"{"redis_queue_key": "q", "apns_server": "127.0.0.1:1", "apns_topic": "com.example.app", \#(members)}"#, to: file)
        return try Configuration.load(SettingsFile(path: file))
    }

    /// Without its thread nothing asks for a lease, and nothing would be sent.
    @Test(arguments: ["fleet limits", "provider tokens"])
    func `do not apply if a thread cannot start`(missing: String) throws {
        _ = try Credentials.make(.init()).write(to: folder.path)
        let log = LogFixture()
        let limits = SharedRateLimits()
        let isMissing = Locked(true)
        let started = Locked<[String]>([])
        let fleet = try Fleet(
            limits, load(#""apns_cert_path": "client.pem", "apns_key_path": "client-key.pem""#), log: log.log
        ) { name, _ throws(ThreadError) in
            if name == missing, isMissing.withLock({ $0 }) { throw ThreadError(name: name, code: EAGAIN) }
            started.withLock { $0.append(name) }
        }
        let new = try load(
            """
            "apns_auth_key_path": "AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001", "apns_team_id": "SIMTEAM001",
            "max_rate_fleet": 100
            """)
        #expect(throws: ThreadError(name: missing, code: EAGAIN)) { try fleet.prepare(new) }
        #expect(limits.holding == nil)
        isMissing.withLock { $0 = false }
        try fleet.prepare(new)
        #expect(limits.holding == nil)
        fleet.follow(new)
        #expect(limits.holding == 50)
        #expect(started.withLock { $0.sorted() } == ["fleet limits", "provider tokens"])
    }
}
