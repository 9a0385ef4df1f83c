import ArgumentParser
import Clocks
import Glibc
import RedisQueue
import Threads

/// What Redis knows of the lists and of who works on them.
struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows backlog, jobs in flight, dead letters and live workers, from Redis alone.",
        discussion: """
            The rates of workers come from two readings a second apart; without a live worker there is one reading.

            --json prints one object on one line: "backlog", "in_flight", "delayed", "recovered", "dead", "feedback", "workers" \
            (how many) and "counters" are sums over all lists; "lists" holds an object with the same members for each list, and \
            with its name as "list", with "dead_reasons" (the \(StatusReading.lettersRead) newest letters are read) and with \
            "live_workers": name, host, pid, version, started, in_flight, claimed, sent, claimed_per_second, sent_per_second \
            and the interval that these were measured over, in seconds (null where it is not known yet). A daemon with several \
            lists is one worker for each.

            Exit status: 0, 64 wrong usage, 69 Redis does not answer, 78 a fault in the settings, or Redis refuses us.
            """)

    @OptionGroup var file: SettingsArgument

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Show it anew every second until Ctrl-C.")
    var watch = false

    func run() throws {
        let settings = try file.loadSettings()
        if watch { return try StatusWatch(settings, json: json).run() }
        try RedisAccess.run(settings) { client in
            var reading = try StatusReading(&client, settings.lists)
            if reading.hasWorkers {
                Poller.sleep(until: reading.taken + .seconds(1))
                reading = try StatusReading(&client, settings.lists, after: reading)
            }
            StandardStreams.print(StatusReport(reading, settings).lines(json: json))
        }
    }
}

/// `--watch`: a reading every second until a signal, or until nobody reads on.
private struct StatusWatch: ~Copyable {
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

    /// A Redis that goes away later is waited for; one that is away at the start ends the call.
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
                if rests(until: .now + .seconds(1)) { return }
            }
        }
    }

    /// Returns when it is to end.
    private mutating func watch(_ client: inout RedisClient) throws {
        while true {
            let reading = try StatusReading(&client, settings.lists, after: last)
            guard show(StatusReport(reading, settings)) else { return }
            last = reading
            if rests(until: reading.taken + .seconds(1)) { return }
        }
    }

    /// Whether there is still a reader.
    private func show(_ report: StatusReport) -> Bool {
        if json { return StandardStreams.print(report.lines(json: true)) }
        let lines = [LocalTime.text(of: WallClock.now().unixSeconds)] + report.lines(json: false)
        if !redraws { return StandardStreams.print(lines + [""]) }
        // Home, each line up to its end, and what is left of a longer page: nothing flickers.
        let page = "\u{1B}[H" + lines.map { $0 + "\u{1B}[K\n" }.joined() + "\u{1B}[J"
        return StandardStreams.write(Array(page.utf8))
    }

    /// Sleeps; whether a signal came that ends it.
    private mutating func rests(until due: Instant) -> Bool {
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

extension Poller {
    static func sleep(until due: Instant) {
        var poller = Poller()
        while .now < due { poller.wait(until: due) }
    }
}
