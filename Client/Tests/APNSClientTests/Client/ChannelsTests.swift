import APNSClient
import APNSSimulator
import Harness
import Testing

@Suite("Channels of the client library")
struct ChannelsTests {
    @Test func `are created, shown, listed and deleted on one connection`() async throws {
        let fixture = try ClientFixture { $0.managementPort = 0 }
        var configuration = fixture.configuration()
        configuration.managementServer = .host("127.0.0.1", port: try #require(fixture.simulator.managementPort))
        let channels = try APNSChannels(configuration)
        let (first, second) = (try await channels.create(storage: .latest), try await channels.create(storage: .none))
        #expect(try await channels.storage(of: first) == .latest)
        #expect(try await channels.storage(of: second) == APNSChannels.Storage.none)
        #expect(Set(try await channels.list()) == [first, second])
        try await channels.delete(first)
        try await channels.delete(first)
        #expect(try await channels.storage(of: first) == nil)
        #expect(try await channels.list() == [second])
        #expect(fixture.simulator.totals.connections == 1 && fixture.simulator.totals.requests == 0)
        let invalid = await failure { () async throws(APNSError) in try await channels.delete("no id") }
        #expect(invalid?.cause == .invalid)
        channels.shutdown()
        let late = await failure { () async throws(APNSError) in try await channels.list() }
        #expect(late?.cause == .shutDown)
    }

    @Test func `a refused, lost or impossible call is an error with its fate`() async throws {
        let fixture = try ClientFixture {
            $0.behaviour.managementTurns = [
                .init(1, .reason(.cannotCreateChannelConfig)), .init(2, .closeConnection(recorded: true)),
            ]
        }
        let channels = try APNSChannels(fixture.configuration())
        let full = await failure { () async throws(APNSError) in try await channels.create(storage: .none) }
        #expect(full?.fate == .rejected && full?.response?.reason == "CannotCreateChannelConfig")
        let lost = await failure { () async throws(APNSError) in try await channels.create(storage: .none) }
        #expect(lost?.fate == .maybeSent)
        #expect(try await channels.list().count == 1, "the lost one")
        var configuration = fixture.configuration(port: 1)
        configuration.requestTimeout = .milliseconds(100)
        configuration.topic = "no/bundle"
        #expect(throws: APNSError.self) { try APNSChannels(configuration) }
    }

    @Test func `without a client the session ends with the last reference`() async throws {
        let fixture = try ClientFixture()
        var channels: APNSChannels? = try APNSChannels(fixture.configuration())
        #expect(try await channels?.list() == [])
        channels = nil
        #expect(await eventually { fixture.simulator.totals.openConnections == 0 })
    }
}
