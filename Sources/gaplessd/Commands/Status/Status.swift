import ArgumentParser
import Platform
import RedisQueue

/// `gaplessd status`: prints the state of the lists and workers.
struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Prints the backlog, jobs in flight, dead letters and live workers. Reads only Redis.",
        discussion: """
            The rates of workers are measured between two readings, one second apart. Without a live worker, there is one reading.

            --json prints one object on one line. "backlog", "in_flight", "delayed", "recovered", "dead", "feedback", "workers" \
            (their number), "cancelled" and "counters" are sums over all lists; "paused" has the pauses of all lists. "lists" \
            has an object for each list with the same members, "list" (its name), "dead_reasons" (of the newest \
            \(StatusReading.lettersRead) dead letters) and "live_workers": name, host, pid, version, started, \
            in_flight, claimed, sent, claimed_per_second, sent_per_second and interval (the seconds between \
            the readings; null if not yet measured), and "apps": app, bottleneck, held, reason, paused, \
            sessions, streams, capacity, and with metrics_listen p50 and p99 (seconds from claim to response over the last ten \
            seconds). A daemon is one worker for each of its lists, and reports its apps within two seconds of a change.

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Print a new reading every second until Ctrl-C.")
    var watch = false

    func run() throws {
        let settings = try file.loadSettings()
        if watch { return try StatusWatch(settings, json: json).run() }
        try Self.printOnce(settings, json: json)
    }

    /// Prints one reading, with the rates of the workers if there are any.
    static func printOnce(_ settings: Settings, json: Bool) throws {
        try RedisAccess.run(settings) { client in
            var reading = try StatusReading(&client, settings.lists)
            if reading.hasWorkers {
                let due = reading.taken + .seconds(1)
                var poller = Poller()
                while .now < due { poller.wait(until: due) }
                reading = try StatusReading(&client, settings.lists, after: reading)
            }
            StandardStreams.print(StatusReport(reading, settings).lines(json: json))
        }
    }
}
