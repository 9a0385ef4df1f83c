import Glibc
import RedisQueue
import SystemTime
import Threads

/// `gaplessd status --watch`: prints a reading every second, until a signal or until standard output is closed.
struct StatusWatch: ~Copyable {
    private let settings: Settings
    private let json: Bool
    private var signals = SignalInbox()
    private let redraws: Bool
    private var last: StatusReading?

    init(_ settings: Settings, json: Bool) {
        self.settings = settings
        self.json = json
        redraws = !json && StandardStreams.isTerminal(STDOUT_FILENO)
    }

    /// Waits for a Redis that is lost during the watch. A Redis that does not respond at the start ends the call.
    consuming func run() throws {
        while true {
            do {
                var client = try RedisAccess.open(settings)
                try watch(&client)
                return
            } catch {
                let fault = (error as? ProbeError) ?? (error as? RedisError).map { ProbeError($0, of: settings) }
                guard let fault else { throw error }
                if last == nil { throw fault.told("redis") }
                StandardStreams.print(["redis: \(fault)"], to: STDERR_FILENO)
                if isStopped(before: .now + .seconds(1)) { return }
            }
        }
    }

    private mutating func watch(_ client: inout RedisClient) throws {
        while true {
            let reading = try StatusReading(&client, settings.lists, after: last)
            guard show(StatusReport(reading, settings)) else { return }
            last = reading
            if isStopped(before: reading.taken + .seconds(1)) { return }
        }
    }

    /// Returns `false` if standard output is closed.
    private func show(_ report: StatusReport) -> Bool {
        if json { return StandardStreams.print(report.lines(json: true)) }
        let lines = [LocalTime.text(of: WallClock.now().unixSeconds)] + report.lines(json: false)
        if !redraws { return StandardStreams.print(lines + [""]) }
        // Overwrites the previous page and erases only its remains, to avoid flicker.
        let page = "\u{1B}[H" + lines.map { $0 + "\u{1B}[K\n" }.joined() + "\u{1B}[J"
        return StandardStreams.write(Array(page.utf8))
    }

    /// Sleeps until `due`. Returns `true` early if a signal ends the watch.
    private mutating func isStopped(before due: Instant) -> Bool {
        var poller = Poller()
        while .now < due {
            poller.reset()
            poller.add(signals.descriptor, for: .read)
            poller.wait(until: due)
            if let signal = signals.next(), signal != .report { return true }
        }
        return false
    }
}
