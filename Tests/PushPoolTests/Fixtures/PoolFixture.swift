import Harness
import Platform
import Testing

@testable import PushPool

/// A pool with everything that it reports, closed and joined when the test is over.
final class PoolFixture {
    let pool: SessionPool
    let deliveries: Collector<Delivery>
    let events: Collector<PoolEvent>
    private let directory = TemporaryFolder()
    private var nextID: UInt64 = 1

    static let signing = Result {
        try Credential.signingKey(p8PEM: Certificates.shared.signingKeyPEM, keyID: "ABCDE12345", teamID: "TEAM567890")
    }

    init(
        port: Int, sessions: Int = 1, credential: Credential? = nil, resolver: NameResolver = NameResolver(thread: "apns names"),
        _ change: (inout PoolSettings) -> Void = { _ in }
    ) throws {
        directory.write(Certificates.shared.rootPEM, to: "root.pem")
        deliveries = Collector()
        events = Collector()
        let configuration = try PoolConfiguration(
            settings: settingsFor(port, sessions, directory.path, change), credential: credential ?? PoolFixture.signing.get())
        pool = try SessionPool(configuration, deliveries: deliveries.mailbox, events: events.mailbox, resolver: resolver)
    }

    deinit { _ = pool.close() }

    func settings(port: Int, sessions: Int = 1, _ change: (inout PoolSettings) -> Void = { _ in }) -> PoolSettings {
        settingsFor(port, sessions, directory.path, change)
    }

    /// Pushes `count` notifications; returns their ids.
    @discardableResult
    func push(_ count: Int, avoiding: SessionID? = nil, payload: String = #"{"aps":{"alert":"Hi"}}"#) -> [UInt64] {
        var batch: [PushPool.Notification] = []
        let ids = (0..<count).map { nextID + UInt64($0) }
        for id in ids { batch.append(notification(id, payload: payload, avoiding: avoiding)) }
        nextID += UInt64(count)
        pool.push(&batch)
        return ids
    }

    /// Waits for this many deliveries in all.
    @discardableResult
    func waitForDeliveries(_ count: Int) -> [Delivery] {
        deliveries.wait { $0.count >= count }
        return deliveries.all
    }

    /// Waits for the limit after ENHANCE_YOUR_CALM. Returns it in pushes per second.
    func waitUntilSlowed() -> Int? {
        func limits(_ events: [PoolEvent]) -> [Int] {
            events.compactMap { if case .slowed(let limit) = $0 { limit } else { nil } }
        }
        events.wait { !limits($0).isEmpty }
        return limits(events.all).first
    }

    /// Waits for a failed dial. Returns the first one.
    func waitForFailedDial() -> (address: String, fault: SessionError)? {
        func failures(_ events: [PoolEvent]) -> [(String, SessionError)] {
            events.compactMap { if case .dialFailed(_, let address, let fault, _) = $0 { (address, fault) } else { nil } }
        }
        events.wait { !failures($0).isEmpty }
        return failures(events.all).first
    }

    /// Waits until a session has closed because of such a fault.
    func waitForEnd(because isWanted: (SessionError) -> Bool) {
        events.wait { $0.contains { if case .closed(_, _, let fault) = $0 { isWanted(fault) } else { false } } }
    }

    /// The reasons for which sessions have closed so far.
    var ends: [SessionError] {
        events.drain().compactMap { if case .closed(_, _, let fault) = $0 { fault } else { nil } }
    }

    /// Waits until this many sessions have opened.
    func waitUntilOpened(_ count: Int = 1) {
        events.wait { events in
            events.count { if case .opened = $0 { true } else { false } } >= count
        }
    }
}

private func settingsFor(_ port: Int, _ sessions: Int, _ path: String, _ change: (inout PoolSettings) -> Void) -> PoolSettings {
    var settings = PoolSettings(
        host: "127.0.0.1", port: port, extraRootsPath: "\(path)/root.pem", sessions: sessions,
        dialTimeout: .seconds(10), dialBackoff: Backoff(first: .milliseconds(20), most: .milliseconds(200)))
    change(&settings)
    return settings
}

let sharedHeaders = SharedHeaders(topic: "com.example.app", pushType: "alert", priority: 10)

func notification(
    _ id: UInt64, token: String = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0",
    payload: String = #"{"aps":{"alert":"Hi"}}"#, headers: SharedHeaders = sharedHeaders, expiration: Int64? = nil,
    apnsID: String? = nil, collapseID: String? = nil, avoiding: SessionID? = nil
) -> PushPool.Notification {
    let bytes = Array((token + payload).utf8)
    return PushPool.Notification(
        id: id, bytes: bytes, token: 0..<token.utf8.count, payload: token.utf8.count..<bytes.count, headers: headers,
        expiration: expiration, apnsID: apnsID, collapseID: collapseID, avoiding: avoiding)
}
