import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Lost data of Redis that no worker saw", .blocking)
struct DataSetWatchTests {
    private let folder = TemporaryFolder()
    private let log = LogFixture()
    private let server: RedisServer
    private let settings: Settings
    private let keys = Keys(list: "calls")
    private let lists: QueueSettings

    init() throws {
        server = try RedisServer()
        let file = try CallStage.write(
            ["redis_socket_path": server.socketPath.quoted], to: folder.file("settings.json"))
        settings = try Configuration.read(SettingsFile(path: file)).settings
        lists = QueueSettings(list: "calls", server: .unix(path: server.socketPath))
    }

    /// What a daemon does between its start and its end.
    private func watch() throws {
        var client = try RedisClient(settings: lists)
        var watch = DataSetWatch(settings, stateFolder: folder.file("state"), log: log.log)
        try watch.step(&client, connection: 1)
        try watch.finish(&client, connection: 1)
    }

    private func set(_ epoch: String, claimed: Int) throws {
        try server.command(["HSET", keys.stats, "born", epoch, "claimed", "\(claimed)"])
    }

    /// The losses that `audit` reads on any host.
    private func recorded() throws -> [DataSet.Loss] {
        var client = try RedisClient(settings: lists)
        return try QueueAudit.read(&client, keys).losses.map(\.loss)
    }

    @Test(arguments: [
        ("a", 9, "s", nil), ("a", 10, "t", nil), ("a", 8, "s", DataSet.Loss.rolledBack), ("a", 0, "t", .rolledBack),
        ("b", 10, "s", .emptied), ("", 0, "s", .emptied), ("b", 10, "t", .replaced), ("", 0, "", .replaced),
    ])
    func `a reading is compared with the one before`(epoch: String, claimed: Int64, server: String, loss: DataSet.Loss?) {
        let before = DataSet(epoch: "a", claimed: 9, at: 1, server: "s")
        #expect(before.loss(to: DataSet(epoch: epoch, claimed: claimed, at: 2, server: server)) == loss)
        #expect(DataSet(epoch: "", claimed: 0, at: 1, server: "s").loss(to: before) == nil, "there was nothing to lose")
    }

    @Test func `a start after a rollback records it once, and growing counters are none`() throws {
        try set("a", claimed: 5)
        try watch()
        try server.command(["SAVE"])
        try set("a", claimed: 50)
        try watch()
        #expect(try recorded().isEmpty)
        server.kill()
        try server.restart()
        try watch()
        #expect(try recorded() == [.rolledBack])
        try server.command(["HDEL", keys.stats, "rolled_back"])
        try watch()
        #expect(try recorded().isEmpty)
        #expect(log.finish().errors.split(separator: "\n").count { $0.contains("put back to an earlier state after") } == 1)
    }

    @Test func `an emptied Redis differs from another one at its address`() throws {
        try set("a", claimed: 5)
        try watch()
        try server.command(["FLUSHALL"])
        try watch()
        #expect(try recorded().isEmpty, "no worker has begun another data set yet")
        try set("b", claimed: 50)
        try watch()
        #expect(try recorded() == [.emptied])
        server.kill()
        try server.restart()
        try set("c", claimed: 50)
        try watch()
        #expect(try recorded() == [.replaced])
    }

    @Test func `a loss that a worker has recorded since is left as it is`() throws {
        try set("a", claimed: 5)
        try watch()
        try server.command(["FLUSHALL"])
        try set("b", claimed: 1)
        try server.command(["HSET", keys.stats, "emptied", "9999999999999"])
        try watch()
        #expect(try server.command(["HGET", keys.stats, "emptied"]).text == "9999999999999")
        #expect(log.finish().errors.isEmpty)
    }

    @Test func `a user without INFO, and a folder that cannot be used, change nothing else`() throws {
        try set("a", claimed: 5)
        try watch()
        try server.command(["ACL", "SETUSER", "default", "-info"])
        try set("a", claimed: 4)
        try watch()
        #expect(try recorded() == [.rolledBack])
        try File.write("", to: folder.file("file"))
        var client = try RedisClient(settings: lists)
        var watch = DataSetWatch(settings, stateFolder: folder.file("file"), log: log.log)
        try watch.step(&client, connection: 1)
        try watch.finish(&client, connection: 1)
    }
}
