import Glibc
import Platform
import RedisQueue

/// `status --watch` and `top`: shows a reading every second, until a signal or until standard output is closed.
struct StatusWatch: ~Copyable {
    private let settings: Settings
    private let json: Bool
    /// With `top` only.
    private var screen: TopScreen?
    private var signals: SignalInbox
    private let redraws: Bool
    private var last: StatusReading?

    init(_ settings: Settings, json: Bool = false, isTop: Bool = false) throws(ThreadError) {
        signals = try SignalInbox()
        self.settings = settings
        self.json = json
        screen = isTop ? TopScreen() : nil
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
            if screen != nil {
                let tails = try tails(&client)
                screen?.add(reading, tails)
            }
            guard show(reading) else { return }
            last = reading
            if isStopped(before: reading.taken + .seconds(1)) { return }
        }
    }

    /// Looks at the tails of the lists; `nil` where the user has no right to it.
    private func tails(_ client: inout RedisClient) throws(RedisError) -> [TailProbe.Answer?] {
        var answers: [TailProbe.Answer?] = []
        for list in settings.lists {
            do throws(RedisError) {
                answers.append(try TailProbe(Keys(list: list)).ask(screen?.question(of: list) ?? .init(), &client))
            } catch {
                guard error.isFromServer else { throw error }
                answers.append(nil)
            }
        }
        return answers
    }

    /// Returns `false` if standard output is closed.
    private func show(_ reading: StatusReading) -> Bool {
        let report = StatusReport(reading, settings)
        if json { return StandardStreams.print(report.lines(json: true)) }
        let time = LocalTime.text(of: WallClock.now().unixSeconds)
        let lines =
            screen.map { ["gaplessd \(gaplessdVersion)   \(time)", ""] + $0.lines(reading) } ?? [time] + report.lines(json: false)
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
