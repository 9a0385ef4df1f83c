import Glibc
import Harness
import Testing

@testable import gaplessd

@Suite(
    "The page in a browser", .blocking,
    .enabled(if: Browser.program != nil, "Chromium is not installed: apt-get install chromium"))
struct ConsoleTests {
    /// `scripts/screenshots` sets it.
    private static let images = getenv("GAPLESS_SCREENSHOTS").map { String(cString: $0) }
    /// Committed screenshots: state, width, height, dark mode.
    private static let shots: [(state: ConsoleState, name: String, width: Int, height: Int, isDark: Bool)] = [
        (.usual, "console", 1180, 1000, false), (.held, "console-held-dark", 1180, 1000, true),
        (.paused, "console-phone", 360, 780, false),
    ]

    private let folder = TemporaryFolder()

    /// Writes the page, which tells the page around it its width and its widest content. It asks no server for a new state.
    private func write(_ state: ConsoleState, name: String, frame width: Int) throws -> String {
        let html = StatusPage(state.facts).html
        let nonce = try #require(html.firstRange(of: "script-src 'nonce-").map { html[$0.upperBound...].prefix { $0 != "'" } })
        let teller = """
            <script nonce="\(nonce)">fetch=()=>new Promise(()=>{});\
            parent.postMessage([innerWidth,document.documentElement.scrollWidth,\
            document.querySelectorAll('.tile').length,document.querySelectorAll('.chart').length].join(' '),'*')</script></body>
            """
        try File.write(html.replacing("</body>", with: teller), to: folder.file("\(name).html"))
        let scale = max(1, 500.0 / Double(width))
        let frame = """
            <!doctype html><title>frame</title>\
            <script>addEventListener('message',e=>{document.body.dataset.facts=e.data})</script>
            <body style="margin:0;overflow:hidden"><iframe src="\(name).html" style="border:0;width:\(width)px;height:3000px;\
            transform:scale(\(scale));transform-origin:0 0"></iframe></body>
            """
        try File.write(frame, to: folder.file("\(name)-frame.html"))
        return folder.file("\(name)-frame.html")
    }

    @Test(arguments: ConsoleState.allCases, [360, 1180])
    func `nothing is wider than the window`(state: ConsoleState, width: Int) throws {
        let page = try write(state, name: "\(state.rawValue)-\(width)", frame: width)
        let document = try Browser.document(page, width: width)
        let told = try #require(document.firstRange(of: "data-facts=\"").map { document[$0.upperBound...].prefix { $0 != "\"" } })
        let numbers = told.split(separator: " ").compactMap { Int($0) }
        try #require(numbers.count == 4, "\(told)")
        #expect(numbers[0] == width)
        #expect(numbers[1] <= width)
        let facts = state.facts
        #expect(numbers[2] == 8 * facts.reading.lists.count)
        #expect(numbers[3] == 3 * facts.history.lists.count + 2)
    }

    @Test func `the page replaces itself by its new state`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["metrics_listen": "\"127.0.0.1:0\""])
        let port = try #require(daemon.metricsPort())
        try stage.open(daemon)
        let output = folder.file("dom")
        let process = try ChildProcess(
            Browser.program ?? "",
            [
                "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=\(folder.file("profile"))",
                "--virtual-time-budget=9000", "--dump-dom", "http://127.0.0.1:\(port)/",
            ], standardOutput: .file(output))
        #expect(process.wait(atMost: .seconds(120))?.status == 0)
        let document = File.read(output)
        #expect(document.contains("id=\"page\"") && !document.contains("class=\"stale\""))
        #expect(document.contains("Sent per second"))
        #expect(daemon.stop()?.status == 0)
    }

    @Test(.enabled(if: ConsoleTests.images != nil, "scripts/screenshots makes the images"))
    func `screenshots for the documentation`() throws {
        let images = try #require(Self.images)
        for shot in Self.shots {
            let page = try write(shot.state, name: shot.name, frame: shot.width)
            let image = "\(images)/\(shot.name).png"
            try Browser.screenshot(page, to: image, width: shot.width, height: shot.height, isDark: shot.isDark)
            let bytes = File.bytes(of: image, from: 0).count
            #expect(bytes > 5000 && bytes < 200_000, "\(image): \(bytes)")
        }
    }
}
