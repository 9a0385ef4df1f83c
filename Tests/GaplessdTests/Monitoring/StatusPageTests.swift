import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

extension PageFacts {
    /// The page of a daemon with these readings, without a past.
    static func sample(
        _ reading: RedisReading, _ snapshot: ProcessSnapshot?, now: Instant = .now, file: String = "/etc/my app.json",
        redacts: Bool = false
    ) -> PageFacts {
        PageFacts(
            reading: reading, notice: snapshot.map { .init(snapshot: $0, at: now) },
            history: History(lists: reading.lists.map(\.name)),
            system: SystemFacts(started: 0, residentBytes: 1, processorSeconds: 0), now: now,
            wallClock: WallClock(seconds: 1_799_000_000), options: Options(file: file, redacts: redacts))
    }
}

@Suite("The status page")
struct StatusPageTests {
    private let now = Instant.now

    private func snapshot() -> ProcessSnapshot {
        ProcessSnapshot(
            apps: [
                .init(name: nil, sessions: 2, capacity: 2000, held: 7, streams: 5, tokenAge: .seconds(90)),
                .init(name: "beta", sessions: 1, capacity: 1000, certificateExpires: 1_800_000_000),
            ],
            lists: [.init(name: "q", isConnected: true, sinceContact: .seconds(2))])
    }

    private func reading(_ name: String = "q", dead: Int = 0) -> RedisReading {
        var status = QueueStatus()
        (status.backlog, status.dead) = (41, dead)
        status.counters = [.sent: 1234]
        return RedisReading(taken: now, lists: [.init(name: name, status: status, sentPerSecond: 12.34)])
    }

    private func page(_ reading: RedisReading, _ snapshot: ProcessSnapshot?, redacts: Bool = false) -> String {
        StatusPage(.sample(reading, snapshot, now: now, redacts: redacts)).html
    }

    @Test func `shows figures, and escapes every name`() {
        let html = page(reading("<script>alert('x')</script>\" onload=\""), snapshot())
        #expect(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;"))
        #expect(!html.contains("<script>"))
        #expect(html.contains("<b>41</b>"))
        #expect(html.contains("<dt>sent</dt><dd>1\u{202F}234</dd>"))
        #expect(html.contains("certificate, 11 days left"))
        #expect(html.contains(">ready<"))
    }

    @Test func `loads nothing from other places, and has no inline style`() {
        let html = page(reading(), snapshot())
        #expect(!html.contains("http://") && !html.contains("https://") && !html.contains("src=") && !html.contains("style="))
        #expect(html.contains("default-src 'none'"))
    }

    @Test func `lists the faults`() {
        let html = page(RedisReading(taken: now, fault: "no <answer>"), nil)
        #expect(html.contains(">not ready<"))
        #expect(html.contains("<li>starting</li><li>the figures of the lists are unknown: no &lt;answer&gt;</li>"))
    }

    @Test func `an unknown age is shown as unknown, and a known one with its unit`() {
        #expect(page(reading(), snapshot()).contains("<span>age</span><b>–</b><i>unknown</i>"))
        var known = reading()
        (known.lists[0].age, known.lists[0].drain) = (.milliseconds(1500), 90)
        #expect(page(known, snapshot()).contains("<span>age</span><b>1.5 s</b>"))
        #expect(page(known, snapshot()).contains("<span>drains in</span><b>1 min</b>"))
    }

    @Test func `names the bottleneck and the reason of a hold`() {
        var held = snapshot()
        held.apps[0].bottleneck = .window
        held.apps[1].hold = .suspectTokens
        let html = page(reading(), held)
        #expect(html.contains("<span class=\"chip warn\">window</span>"))
        #expect(html.contains("held: suspect tokens"))
        #expect(html.contains("APNs has rejected 20 device tokens in a row: wrong environment or topic?"))
    }

    @Test func `dead letters show their reasons and the latest, with tokens as log_redact allows`() {
        var some = reading(dead: 3)
        var letters = DeadLetterSummary()
        letters.reasons = [("Unregistered", 2), ("no <reason>", 1)]
        letters.latest = [
            DeadLetterBrief(
                record: Array(
                    """
                    {"reason": "Unregistered", "status": 410, "apns_id": null, "identifier": "<b>", "token": "0123456789abcdef", \
                    "attempts": 1, "at": 1799000000, "worker": "w", "job": "{\\"token
                    """.utf8))
        ]
        some.lists[0].letters = letters
        let html = page(some, snapshot())
        #expect(html.contains("410 Unregistered"))
        #expect(html.contains("&quot;&lt;b&gt;&quot;"))
        #expect(html.contains("<code>0123456789abcdef</code>"))
        #expect(html.contains("no &lt;reason&gt;"))
        let redacted = page(some, snapshot(), redacts: true)
        #expect(redacted.contains("<code>01234567</code>"))
        #expect(!redacted.contains("0123456789abcdef"))
    }

    @Test func `commands are quoted for a shell, and name the list where there are several`() {
        let html = page(reading(), snapshot())
        #expect(html.contains("gaplessd peek &#39;/etc/my app.json&#39;</code>"))
        var two = reading()
        two.lists.append(.init(name: "it's", status: QueueStatus()))
        #expect(page(two, snapshot()).contains("gaplessd peek &#39;/etc/my app.json&#39; --list &#39;it&#39;\\&#39;&#39;s&#39;"))
    }

    @Test func `a pause is shown with the command that ends it`() {
        var paused = reading()
        paused.lists[0].status.pauses = [
            QueuePause(app: "beta", record: Array(#"{"until": 0, "since": 1, "reason": "bad <campaign>", "by": "me"}"#.utf8))
        ]
        let html = page(paused, snapshot())
        #expect(html.contains("app beta: paused by me: bad &lt;campaign&gt;"))
        #expect(html.contains("gaplessd resume &#39;/etc/my app.json&#39; --app beta"))
    }

    @Test(arguments: [(5.9, "5 s"), (125, "2 min"), (12_000, "3 h 20 min"), (1_050_000, "12 d 3 h")])
    func `shows a duration in two units at most`(seconds: Double, text: String) {
        #expect(PageText.span(seconds) == text)
    }
}

@Suite("A chart of the page")
struct ChartTests {
    private func chart(_ series: History.Series...) -> Chart {
        Chart(
            title: "t", unit: .number,
            lines: series.enumerated().map { .init(name: "l\($0)", color: $0, series: $1) })
    }

    @Test func `unknown values are gaps`() {
        let html = chart([1, 2, .nan, 4, 5]).html
        #expect(html.contains("d=\"M356 58L357 44M359 16L360 2\""))
    }

    @Test func `points between equal neighbours are left out`() {
        #expect(chart([0, 5, 5, 5, 5, 0]).html.contains("d=\"M355 72L356 2L359 2L360 72\""))
    }

    @Test(arguments: [(0.0, 1.0), (0.3, 0.5), (1, 1), (1.1, 2), (4900, 5000), (.infinity, 1)])
    func `the upper end is a round number`(value: Double, top: Double) {
        #expect(abs(Chart.roundedUp(value) - top) < 1e-9)
    }

    @Test func `a stack adds its lines up`() {
        var chart = chart([1, 1], [3, 1])
        chart.isStacked = true
        #expect(chart.html.contains("data-top=\"5.0\""))
    }

    @Test func `no value makes it trap`() {
        for series in [[], [.nan], [.infinity], [-.infinity, 1], [Float.greatestFiniteMagnitude, -1], [0]] as [History.Series] {
            var all = chart(series, series)
            _ = all.html
            all.isStacked = true
            #expect(all.html.contains("<svg"))
        }
    }
}
