import Glibc
import Harness
import Platform
import PushPool
import Testing

@testable import RedisQueue
@testable import gaplessd

@Suite("The status page")
struct StatusPageTests {
    @Test func `only its own script and style run, and only /status.json is read`() {
        #expect(StatusPage.nonce() != StatusPage.nonce())
        #expect(
            StatusPage.policy(nonce: "N") == "default-src 'none'; style-src 'nonce-N'; script-src 'nonce-N'; "
                + "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
        let html = StatusPage.html(nonce: "N")
        #expect(html.contains("<style nonce=\"N\">") && html.contains("<script type=\"module\" nonce=\"N\">"))
        #expect(html.split(separator: "<script").count == 2 && html.split(separator: "<style").count == 2)
        #expect(html.split(separator: "fetch(").count == 2 && html.contains("fetch(path, {cache: 'no-store'})"))
    }

    @Test func `loads nothing from other places, and makes no markup of texts`() {
        let html = StatusPage.html.replacing("'http://www.w3.org/2000/svg'", with: "")
        for text in [
            "http://", "https://", "src=", "style=", "onclick", "innerHTML", "outerHTML", "insertAdjacentHTML", "DOMParser",
            "document.write", "eval(", "new Function",
        ] {
            #expect(!html.contains(text), "\(text)")
        }
    }

    @Test func `says without JavaScript where the figures are`() {
        #expect(StatusPage.html.contains("<noscript>"))
        #expect(StatusPage.html.contains("This page needs JavaScript"))
    }

    @Test(arguments: [(5.9, "5 s"), (125, "2 min"), (12_000, "3 h 20 min"), (1_050_000, "12 d 3 h")])
    func `top shows a duration in two units at most`(seconds: Double, text: String) {
        #expect(seconds.span == text)
    }
}

@Suite(
    "The status page, drawn by its script", .blocking,
    .enabled(if: PageScript.node != nil, "Node.js is not installed: apt-get install nodejs"))
struct PageScriptTests {
    private let now = Instant.now

    private func page(
        _ reading: RedisReading, _ snapshot: ProcessSnapshot? = StatusDocument.healthySnapshot(), redacts: Bool = false
    ) throws -> String {
        try PageScript.draw(.sample(reading, snapshot, now: now, redacts: redacts))
    }

    @Test func `shows figures, and every name as text`() throws {
        let html = try page(StatusDocument.sampleReading("<script>alert('x')</script>\" onload=\"\u{9B}"))
        #expect(html.hasPrefix("ready · gaplessd\n"))
        #expect(html.contains("<em>&#60;script&#62;alert(&#39;x&#39;)&#60;/script&#62;&#34; onload=&#34;\\x9b</em>"))
        #expect(!html.contains("<script"))
        #expect(html.contains("<b>41</b>"))
        #expect(html.contains("<dt>sent</dt><dd>1,234</dd>"))
        #expect(html.contains("certificate, 11 days left") && html.contains("token, 1 min old"))
        #expect(html.contains(">ready<"))
    }

    @Test func `lists the faults`() throws {
        let html = try page(RedisReading(taken: now, fault: "no <answer>"), nil)
        #expect(html.contains(">not ready<"))
        #expect(
            html.contains(
                #"<li class="bad">starting</li><li class="bad">the figures of the lists are unknown: no &#60;answer&#62;</li>"#))
    }

    @Test func `an unknown age is shown as unknown, and a known one with its unit`() throws {
        #expect(try page(StatusDocument.sampleReading()).contains("<span>age</span><b>–</b><i>unknown</i>"))
        var known = StatusDocument.sampleReading()
        (known.lists[0].age, known.lists[0].drain) = (.milliseconds(1500), 90)
        let html = try page(known)
        #expect(html.contains("<span>age</span><b>1.5 s</b>"))
        #expect(html.contains("<span>drains in</span><b>1 min</b>"))
    }

    @Test func `names the bottleneck and the reason of a hold`() throws {
        var held = StatusDocument.healthySnapshot()
        held.apps[0].bottleneck = .window
        held.apps[1].hold = .suspectTokens
        let html = try page(StatusDocument.sampleReading(), held)
        #expect(html.contains("<span class=\"chip warn\">window</span>"))
        #expect(html.contains("held: suspect tokens"))
        #expect(html.contains("APNs has rejected 20 device tokens in a row: wrong environment or topic?"))
        #expect(html.contains("gaplessd check &#39;/etc/my app.json&#39; --prove</code>"))
    }

    @Test func `dead letters show their reasons and the latest`() throws {
        var some = StatusDocument.sampleReading(dead: 3)
        some.lists[0].letters = StatusDocument.sampleLetters()
        let html = try page(some)
        #expect(html.contains("410 Unregistered"))
        #expect(html.contains("&#34;&#60;b&#62;&#34;"))
        #expect(html.contains("<code class=\"cut\">0123456789abcdef</code>"))
        #expect(html.contains("no &#60;reason&#62;"))
        #expect(html.contains("gaplessd dead &#39;/etc/my app.json&#39; requeue --reason Unregistered --rate 100</code>"))
        let redacted = try page(some, redacts: true)
        #expect(redacted.contains("<code class=\"cut\">01234567</code>"))
    }

    @Test func `commands are quoted for a shell, and name the list where there are several`() throws {
        #expect(try page(StatusDocument.sampleReading()).contains("gaplessd peek &#39;/etc/my app.json&#39;</code>"))
        var two = StatusDocument.sampleReading()
        two.lists.append(.init(name: "it's", status: QueueStatus()))
        let html = try page(two)
        #expect(html.contains("gaplessd peek &#39;/etc/my app.json&#39; --list &#39;it&#39;\\&#39;&#39;s&#39;"))
        #expect(html.contains("gaplessd pause &#39;/etc/my app.json&#39; --app &#39;(top level)&#39; --for 10m</code>"))
    }

    @Test func `a pause is shown with the command that ends it`() throws {
        var paused = StatusDocument.sampleReading()
        paused.lists[0].status.pauses = [
            QueuePause(.app("beta"), record: Array(#"{"until": 0, "since": 1, "reason": "bad <campaign>", "by": "me"}"#.utf8))
        ]
        let html = try page(paused)
        #expect(html.contains("app beta: paused by me: bad &#60;campaign&#62;"))
        #expect(html.contains("gaplessd resume &#39;/etc/my app.json&#39; --app beta"))
        #expect(html.contains("gaplessd pause &#39;/etc/my app.json&#39; --for 10m --reason TEXT"))
    }

    @Test func `a held app among others is a warning`() throws {
        var held = StatusDocument.healthySnapshot()
        held.apps[1].hold = .suspectTokens
        let html = try page(StatusDocument.sampleReading(), held)
        #expect(html.hasPrefix("degraded · gaplessd\n"))
        #expect(html.contains("<span class=\"pill warn\">degraded</span>") && !html.contains(">ready<"))
        #expect(html.contains("<li class=\"warn\">app beta is held: ") && !html.contains("<li class=\"bad\">"))
        held.apps[0].hold = .suspectTokens
        let none = try page(StatusDocument.sampleReading(), held)
        #expect(none.hasPrefix("not ready · gaplessd\n") && none.contains("<li class=\"bad\">app beta is held: "))
    }

    @Test func `the list is marked as paused only if all of it is`() throws {
        var paused = StatusDocument.sampleReading()
        paused.lists[0].status.pauses = [QueuePause(.app("beta"), record: Array("{}".utf8))]
        let one = try page(paused)
        #expect(one.hasPrefix("ready · gaplessd\n") && one.contains("<span class=\"chip warn\">1 app paused</span>"))
        paused.lists[0].status.pauses.append(QueuePause(.campaign("spring"), record: Array("{}".utf8)))
        let two = try page(paused)
        #expect(two.hasPrefix("ready · gaplessd\n"))
        #expect(two.contains("<span class=\"chip warn\">1 app, 1 campaign paused</span>"))
        #expect(two.contains("campaign spring: paused"))
        paused.lists[0].status.pauses = [QueuePause(.list, record: Array("{}".utf8))]
        let all = try page(paused)
        #expect(all.hasPrefix("paused · gaplessd\n") && all.contains("<span class=\"chip warn\">paused</span>"))
    }

    @Test func `of many apps the page shows 100, counts the others, and has a filter`() throws {
        var snapshot = StatusDocument.healthySnapshot()
        snapshot.apps = (0..<1000).map { .init(name: "customer-\($0)", sessions: 1, capacity: 1000) }
        snapshot.apps[777].hold = .failing
        var some = StatusDocument.sampleReading()
        some.lists[0].status.asides = ["customer-5": 1234, "": 7]
        let html = try page(some, snapshot)
        #expect(html.contains("<small>1,000 of this daemon: 1 held</small><input class=\"filter\" type=\"search\""))
        #expect(html.contains("and 900 more apps: those with problems are first, then the busiest"))
        let names = html.matches(of: #/<b class="name" title="([^"]+)">/#).map { String($0.output.1) }
        #expect(names.count == 100 && names.prefix(2) == ["customer-777", "customer-5"])
        #expect(html.contains("<td data-label=\"aside\">1,234</td>"))
        #expect(html.contains("Set aside until their app can take them: customer-5 1,234, (top level) 7"))
        #expect(try !page(StatusDocument.sampleReading()).contains("class=\"filter\""), "two apps need none")
    }

    @Test func `a silent worker is shown as such`() throws {
        var some = StatusDocument.sampleReading()
        some.lists[0].status.workers = [
            .init(name: "w", inFlight: 7, details: [:], sinceBeat: .seconds(42)),
            .init(name: "v", inFlight: 7, details: [:], sinceBeat: .seconds(2)),
        ]
        let html = try page(some)
        #expect(html.contains("<span class=\"chip bad\">silent for 42 s</span>"))
        #expect(html.contains("<span class=\"chip good\">alive</span>"))
    }

    @Test func `a figure has the same value everywhere in the view`() throws {
        var document = StatusDocument.sample(StatusDocument.sampleReading(), nil, now: now)
        for (index, backlog) in [0, 5, 9].enumerated() {
            var reading = StatusDocument.sampleReading()
            reading.lists[0].status.backlog = backlog
            document.history.observe(reading, nil, now: now + History.interval * index)
        }
        let html = try PageScript.draw(document)
        #expect(html.contains("<figcaption>Backlog<b>41</b></figcaption>") && html.contains("<span>backlog</span><b>41</b>"))
        #expect(html.contains("<figcaption>Sent per second<b>12</b></figcaption>"))
        #expect(html.contains("<figcaption>Age of the next job<b>unknown</b></figcaption>"))
    }

    @Test(arguments: [(1, 5), (30, 5), (31, 10), (60, 10), (61, 30), (181, 60), (400, 60)])
    func `the axis grows with what is known`(points: Int, minutes: Int) throws {
        let html = try chart(Array(repeating: 3, count: points))
        #expect(html.contains("<div class=\"axis\"><span>−\(minutes) min</span>"))
    }

    @Test func `times have the zone of the browser`() throws {
        let html = try page(StatusDocument.sampleReading())
        #expect(html.contains(#/<span class="when">\d{4}/\d\d/\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d</span>/#))
    }

    @Test func `workers are shown with host and figures`() throws {
        var some = StatusDocument.sampleReading()
        some.lists[0].status.workers = [.init(name: "w", inFlight: 7, details: ["host": "web<1>", "sent": "12345"])]
        let html = try page(some)
        #expect(html.contains("<b>web&#60;1&#62;</b>"))
        #expect(html.contains("<td data-label=\"in flight\">7</td><td data-label=\"sent\">12,345</td>"))
    }

    // MARK: Charts

    /// A page with the backlogs as history; `nil` is unknown.
    private func chart(_ backlogs: [Int?]) throws -> String {
        var document = StatusDocument.sample(StatusDocument.sampleReading(), nil, now: now)
        for (index, backlog) in ([0] + backlogs).enumerated() {
            var reading = StatusDocument.sampleReading()
            reading.lists[0].status.backlog = backlog ?? 0
            if backlog == nil { reading = RedisReading(taken: now, fault: "away") }
            document.history.observe(reading, nil, now: now + History.interval * index)
        }
        return try PageScript.draw(document)
    }

    @Test func `unknown values are gaps`() throws {
        #expect(try chart([1, 2, nil, 4, 5]).contains("d=\"M26 58L27 44M29 16L30 2\""))
    }

    @Test func `points between equal neighbours are left out`() throws {
        #expect(try chart([0, 5, 5, 5, 5, 0]).contains("d=\"M25 72L26 2L29 2L30 72\""))
    }

    @Test(arguments: [(1, "1"), (3, "5"), (4900, "5,000"), (6000, "10,000")])
    func `the upper end is a round number`(value: Int, top: String) throws {
        #expect(try chart([value]).contains("<span class=\"top\">\(top)</span>"))
    }

    @Test func `a stack adds its lines up`() throws {
        var document = StatusDocument.sample(StatusDocument.sampleReading(), StatusDocument.healthySnapshot(), now: now)
        var snapshot = StatusDocument.healthySnapshot()
        document.history.observe(StatusDocument.sampleReading(), snapshot, now: now)
        for (reason, count) in [("Unregistered", 10), ("BadDeviceToken", 30)] {
            for _ in 0..<count {
                _ = snapshot.apps[0].responses.count(.rejected(Rejection(status: 400, reason: reason)))
            }
        }
        document.history.observe(StatusDocument.sampleReading(), snapshot, now: now + History.interval)
        let html = try PageScript.draw(document)
        #expect(html.contains("<span class=\"top\">5.0</span>"))
        #expect(html.contains("</i>400 BadDeviceToken</li>"))
    }

    @Test func `extreme figures are drawn`() throws {
        var reading = StatusDocument.sampleReading()
        for counter in Counter.allCases { reading.lists[0].status.counters[counter] = .min }
        (reading.lists[0].status.backlog, reading.lists[0].status.dead) = (.max, .max)
        #expect(try page(reading).contains("<section>"))
        #expect(try chart([.max, .min, nil, 0]).contains("<svg"))
    }
}

/// Runs the script of the page in Node.js, with as much of a document as it needs.
enum PageScript {
    static let node = (["/usr/bin/node", "/usr/local/bin/node"] as [String]).first { access($0, X_OK) == 0 }

    /// Returns the title and the content of the page that draws a document, as HTML with escaped texts.
    static func draw(_ document: StatusDocument) throws -> String {
        let folder = TemporaryFolder()
        let html = StatusPage.html
        guard let start = html.firstRange(of: "<script type=\"module\" nonce=\"\">"),
            let end = html.firstRange(of: "</script>")
        else { throw HarnessError("The page has no script.") }
        try File.write(document.object.line, to: folder.file("status.json"))
        try File.write(browser + html[start.upperBound..<end.lowerBound], to: folder.file("page.mjs"))
        let output = folder.file("output")
        let process = try ChildProcess(
            node ?? "node", [folder.file("page.mjs"), folder.file("status.json")], standardOutput: .file(output),
            standardError: .file(output))
        guard process.wait(atMost: .seconds(60))?.status == 0 else { throw HarnessError(File.read(output)) }
        return File.read(output)
    }

    private static let browser = #"""
        import { readFileSync } from 'node:fs'
        class Element {
          attributes = {}
          children = []
          constructor(tag) { this.tag = tag }
          setAttribute(name, value) { this.attributes[name] = String(value) }
          append(...parts) { this.children.push(...parts) }
          replaceChildren(...parts) { this.children = parts }
          addEventListener() {}
          get html() {
            const escaped = text => text.replace(/[&<>"']/g, c => '&#' + c.charCodeAt(0) + ';')
            const attributes = Object.entries(this.attributes).map(([name, value]) => ` ${name}="${escaped(value)}"`)
            const inside = this.children.map(part => part instanceof Element ? part.html : escaped(String(part)))
            return `<${this.tag}${attributes.join('')}>${inside.join('')}</${this.tag}>`
          }
        }
        const root = new Element('div')
        globalThis.document = {
          createElement: tag => new Element(tag), createElementNS: (space, tag) => new Element(tag), getSelection: () => '',
          getElementById: () => root, querySelectorAll: () => [], addEventListener() {}, body: {},
        }
        globalThis.fetch = async path => {
          if (path !== 'status.json') throw new Error(path)
          return { ok: true, json: async () => JSON.parse(readFileSync(process.argv[2], 'utf8')) }
        }
        globalThis.setTimeout = () => {
          console.log(document.title + '\n' + root.html)
          process.exitCode = document.body.className === '' ? 0 : 1
        }

        """# + "\n"
}
