import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

private let start = Instant.now
private let waiting = ServiceNotifier.Facts(redisHasAnswered: false, isStopping: false)
private let running = ServiceNotifier.Facts(redisHasAnswered: true, isStopping: false)
private let stopping = ServiceNotifier.Facts(redisHasAnswered: true, isStopping: true)

@Suite("Messages to the service manager")
struct ServiceNotifierTests {
    @Test func `READY waits for the first response of Redis, and is sent once`() {
        var notifier = ServiceNotifier(watchdog: nil, now: start)
        #expect(notifier.message(waiting, status: "a", now: start) == "STATUS=a")
        #expect(!notifier.isDue(waiting, now: start + .seconds(1)))
        #expect(notifier.isDue(running, now: start + .seconds(1)))
        #expect(notifier.message(running, status: "b", now: start + .seconds(1)) == "READY=1\nSTATUS=b")
        #expect(!notifier.isDue(running, now: start + .seconds(2)))
        // A lost connection takes nothing back.
        #expect(notifier.message(waiting, status: "c", now: start + .seconds(3)) == "STATUS=c")
        #expect(notifier.message(running, status: "d", now: start + .seconds(100)) == "STATUS=d")
    }

    @Test func `READY is sent without Redis after the start limit, with the reason`() {
        var notifier = ServiceNotifier(watchdog: nil, now: start)
        let end = start + ServiceNotifier.startLimit
        #expect(notifier.message(waiting, status: "a", now: end - .seconds(1)) == "STATUS=a")
        #expect(notifier.deadline == end)
        #expect(notifier.message(waiting, status: "no connection", now: end) == "READY=1\nSTATUS=no connection")
    }

    @Test func `the watchdog gets a message at half of its interval, with and without Redis`() {
        var notifier = ServiceNotifier(watchdog: .seconds(1), now: start)
        #expect(notifier.message(waiting, status: "a", now: start) == "WATCHDOG=1\nSTATUS=a")
        #expect(notifier.deadline == start + .milliseconds(500))
        #expect(notifier.message(waiting, status: "a", now: start + .milliseconds(500)) == "WATCHDOG=1")
        #expect(notifier.message(running, status: "a", now: start + .milliseconds(600)) == "READY=1\nSTATUS=a")
        #expect(notifier.message(stopping, status: "a", now: start + .seconds(1)).contains("WATCHDOG=1"))
    }

    @Test func `the shortest watchdog causes no busy loop`() {
        var notifier = ServiceNotifier(watchdog: .microseconds(1), now: start)
        _ = notifier.message(waiting, status: "a", now: start)
        #expect(notifier.deadline == start + ServiceNotifier.leastWatchdogInterval)
    }

    @Test func `a reload is reported only between start and stop`() {
        var notifier = ServiceNotifier(watchdog: nil, now: start)
        #expect(notifier.reloadBegan(microseconds: 7) == nil)
        #expect(notifier.reloadEnded(status: "a") == nil)
        _ = notifier.message(running, status: "a", now: start)
        #expect(notifier.reloadBegan(microseconds: 7) == "RELOADING=1\nMONOTONIC_USEC=7")
        #expect(notifier.reloadEnded(status: "b") == "READY=1\nSTATUS=b")
        _ = notifier.message(stopping, status: "a", now: start)
        #expect(notifier.reloadBegan(microseconds: 8) == nil)
        #expect(notifier.reloadEnded(status: "a") == nil)
    }

    @Test func `STOPPING is sent once, and each status then asks for more time`() {
        var notifier = ServiceNotifier(watchdog: nil, now: start)
        _ = notifier.message(running, status: "a", now: start)
        #expect(notifier.isDue(stopping, now: start))
        let time = "EXTEND_TIMEOUT_USEC=10000000\nSTATUS=b"
        #expect(notifier.message(stopping, status: "b", now: start) == "STOPPING=1\n\(time)")
        #expect(!notifier.isDue(stopping, now: start + .seconds(1)))
        #expect(notifier.message(stopping, status: "b", now: start + .seconds(2)) == time)
    }

    @Test func `a long status is cut`() {
        var notifier = ServiceNotifier(watchdog: nil, now: start)
        let message = notifier.message(running, status: String(repeating: "\u{1F600}\u{301}", count: 9000), now: start)
        #expect(message.utf8.count < 4096)
        #expect(message.hasPrefix("READY=1\nSTATUS=\u{1F600}\u{301}"))
    }

    @Test func `the address of a path ends with zero, and an abstract one with its name`() {
        #expect(NotifySocket.address(of: "/run/x").map { Array($0.dropFirst(2)) } == Array("/run/x".utf8) + [0])
        #expect(NotifySocket.address(of: "@run/x").map { Array($0.dropFirst(2)) } == [0] + Array("run/x".utf8))
        let long = "/" + String(repeating: "a", count: 107)
        for name in ["", "@", "/", "relative", "vsock:2:1", long, "@\u{0}a"] {
            #expect(NotifySocket.address(of: name) == nil, "\(name)")
        }
        #expect(NotifySocket.address(of: String(long.dropLast())) != nil)
    }

    @Test func `the status names the figures and what is missing`() {
        var snapshot = ProcessSnapshot(
            inFlight: 7, apps: [.init(name: nil, sessions: 2, capacity: 2000)],
            lists: [.init(name: "q", isConnected: true)])
        let text = { (snapshot: ProcessSnapshot, backlog: Int?, failed: Bool) in
            ServiceReport.status(snapshot, rate: 12.34, backlog: backlog, reloadFailed: failed, now: start)
        }
        #expect(text(snapshot, 41, false) == "12 pushes/s, backlog 41, 7 in flight, 2 sessions")
        #expect(text(snapshot, nil, true).contains("backlog unknown"))
        #expect(text(snapshot, nil, true) != text(snapshot, nil, false))
        snapshot.lists[0].pauses = [PauseNote(QueuePause(.list, record: Array(#"{"reason": "bad campaign"}"#.utf8)))]
        #expect(text(snapshot, 41, false).contains("bad campaign"))
        snapshot.apps[0].hold = .topic("TopicDisallowed")
        #expect(text(snapshot, 41, false).contains("TopicDisallowed"))
        snapshot.lists[0].isConnected = false
        snapshot.lists[0].name = "a\nREADY=1"
        #expect(!text(snapshot, 41, false).contains("\n"))
    }
}
