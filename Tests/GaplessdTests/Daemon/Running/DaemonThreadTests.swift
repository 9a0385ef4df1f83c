import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("When the system gives no more threads", .blocking)
struct DaemonThreadTests {
    /// The log's and each pool's are there from the start.
    @Test(arguments: [0: "log", 1: "apns pool"])
    func `a daemon that cannot start says so and claims nothing`(left: Int, name: String) throws {
        let stage = try Stage()
        try stage.push(pushJob("0a"))
        let limit = try ThreadLimit(left)
        let daemon = try DaemonProcess(settings: stage.write(), folder: TemporaryFolder(), under: limit.wrapper)
        let exit = daemon.process.wait(atMost: .seconds(20))
        #expect(exit?.status == 1)
        #expect(
            daemon.standardError.contains("no thread for \"\(name)\": Resource temporarily unavailable"),
            "\(daemon.standardError)")
        #expect(try stage.status().backlog == 1)
    }

    @Test func `metrics that cannot be served are a fault of the settings`() throws {
        let stage = try Stage()
        let limit = try ThreadLimit(1)
        let daemon = try DaemonProcess(
            settings: stage.write(["metrics_listen": "\"127.0.0.1:0\""]), folder: TemporaryFolder(), under: limit.wrapper)
        #expect(daemon.process.wait(atMost: .seconds(20))?.status == 78)
        #expect(daemon.standardError.contains("metrics_listen: cannot be served: no thread for"), "\(daemon.standardError)")
    }

    /// Two threads are the log's and the pool's; the third is one session's, which has none left for the lookup of names.
    @Test(arguments: [2, 3])
    func `sessions wait until there are some again, and nothing is lost`(left: Int) throws {
        let stage = try Stage()
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        let limit = try ThreadLimit(left)
        let daemon = try DaemonProcess(settings: stage.write(), folder: TemporaryFolder(), under: limit.wrapper)
        #expect(daemon.says("no thread for \"apns "))
        #expect(stage.simulator.totals.requests == 0)
        #expect(daemon.process.poll() == nil)
        limit.allow(-1)
        #expect(stage.accepts(100))
        #expect(try stage.drains())
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.status().unexplained == 0)
    }
}
