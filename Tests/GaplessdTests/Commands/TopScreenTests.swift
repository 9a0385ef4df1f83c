import Glibc
import Harness
import Platform
import PushPool
import Testing

@testable import RedisQueue
@testable import gaplessd

@Suite("The screen of top")
struct TopScreenTests {
    private func app(_ name: String, _ change: (inout ProcessSnapshot.App) -> Void = { _ in }) -> ProcessSnapshot.App {
        var app = ProcessSnapshot.App(name: name, sessions: 2, capacity: 2000, streams: 5)
        change(&app)
        return app
    }

    private func reading(_ apps: [ProcessSnapshot.App], lists: Int = 1, workers: Int = 1) throws -> StatusReading {
        var state = WorkerState()
        let written = state.record(of: apps, now: .now)
        let record = try #require(written)
        let details = [
            "host": "push-1", "pid": "7", "lease": "15000", WorkerRecord.apps: String(decoding: record.apps, as: UTF8.self),
            WorkerRecord.appCounts: String(decoding: record.counts, as: UTF8.self),
        ]
        var status = QueueStatus()
        (status.backlog, status.dead) = (12_340, 31)
        status.workers = (0..<workers).map { .init(name: "w\($0)", inFlight: 950, details: details, sinceBeat: .seconds(1)) }
        return StatusReading(
            taken: .now, lists: (0..<lists).map { .init(name: "q\($0)", status: status, reasons: [("Unregistered", 31)]) })
    }

    private func lines(_ reading: StatusReading, rows: Int = 40, columns: Int = 100) -> [String] {
        var screen = TopScreen()
        screen.add(reading, reading.lists.map { _ in nil })
        return screen.lines(reading, TerminalSize(rows: rows, columns: columns)).map {
            $0.rendered(columns: columns, isColored: false)
        }
    }

    @Test func `apps with problems come first, with the reason of a hold`() throws {
        let apps = [
            app("quiet"), app("busy") { $0.streams = 900 }, app("paused") { $0.isPaused = true },
            app("held") { $0.hold = .credential("InvalidProviderToken") },
        ]
        let lines = lines(try reading(apps), columns: 200)
        let table = try #require(lines.firstIndex { $0.hasPrefix("app ") })
        #expect(lines[table...].map { String($0.prefix { $0 != " " }) } == ["app", "held", "paused", "busy", "quiet"])
        #expect(lines[table + 1].contains("held: credential  APNs does not accept the credential (InvalidProviderToken)"))
        #expect(lines.contains("  backlog   12,340      ▁") || lines.contains { $0.hasPrefix("  backlog   12,340") })
    }

    @Test func `a column is as wide as its content`() throws {
        let name = "an-app-with-a-rather-long-name"
        let short = lines(try reading([app("a"), app("b")]))
        #expect(short.contains { $0.hasPrefix("app  state  bottleneck") })
        let long = lines(try reading([app(name) { $0.isPaused = true }, app("b")]))
        #expect(long.contains { $0.hasPrefix("\(name)  paused  ") })
    }

    @Test(arguments: [(24, 80), (10, 40), (3, 20), (1, 5), (60, 200)])
    func `everything fits the terminal`(rows: Int, columns: Int) throws {
        let apps = (0..<300).map { number in app("customer-\(number)") { $0.hold = number % 7 == 0 ? .suspectTokens : nil } }
        for reading in [try reading(apps), try reading(apps, lists: 20, workers: 30), try reading(apps, workers: 0)] {
            let lines = lines(reading, rows: rows, columns: columns)
            #expect(lines.count <= rows && lines.allSatisfy { $0.count <= columns }, "\(lines)")
        }
        if rows >= 24 {
            let lines = lines(try reading(apps), rows: rows, columns: columns)
            #expect(lines.last?.hasSuffix("more") == true || lines.last?.contains(" of them with a problem") == true, "\(lines)")
        }
    }

    @Test func `a silent worker is first, and its apps are not shown`() throws {
        var reading = try reading([app("a")], workers: 2)
        reading.lists[0].status.workers[1].sinceBeat = .seconds(130)
        let lines = lines(reading)
        let first = try #require(lines.firstIndex { $0.hasPrefix("push-1") })
        #expect(lines[first] == "push-1, pid 7, 950 in flight, silent for 2 min")
        #expect(lines[first + 1] == "push-1, pid 7, 950 in flight")
        #expect(lines.count { $0.hasPrefix("a  ") } == 1)
    }

    @Test func `colors are left out on request, and a line is cut with them`() {
        var line = TopLine("list ", .title)
        line.add("broken", .bad)
        #expect(line.rendered(columns: 80, isColored: false) == "list broken")
        #expect(line.rendered(columns: 80, isColored: true) == "\u{1B}[1mlist \u{1B}[0m\u{1B}[31mbroken\u{1B}[0m")
        #expect(line.rendered(columns: 8, isColored: true) == "\u{1B}[1mlist \u{1B}[0m\u{1B}[31mbr…\u{1B}[0m")
        #expect(line.rendered(columns: 3, isColored: false) == "li…")
    }

    @Test func `q quits, and NO_COLOR is obeyed`() throws {
        let stage = try CallStage()
        try stage.deadLetter(["aa"])
        // Types q when the screen is drawn.
        func top(_ environment: String, _ file: String) throws -> CallStage.Result {
            try stage.shell(
                "(until grep -q 'q quits' \(file); do read -t 0.2 < <(:) || true; done; printf q) | "
                    + "\(environment) timeout 60 script -qefc \"$G top $S\" \(file)")
        }
        let plain = try top("NO_COLOR=1", "typed")
        #expect(plain.status == 0, "\(plain.errors)")
        let text = File.read(stage.folder.file("typed"))
        #expect(text.contains("list calls") && !text.contains("\u{1B}[1m") && text.contains("\u{1B}[H"), "\(text)")
        let colored = try top("env -u NO_COLOR", "typed2")
        #expect(colored.status == 0)
        #expect(File.read(stage.folder.file("typed2")).contains("\u{1B}[1mlist calls\u{1B}[0m"))
    }
}
