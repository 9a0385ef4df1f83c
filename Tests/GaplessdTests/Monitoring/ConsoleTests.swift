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

    /// Writes the page with its document. It tells the page around it its width and its widest content.
    private func write(_ state: ConsoleState, name: String, frame width: Int) throws -> String {
        let document = state.document.object.line.replacing("<", with: "\\u003c")
        let teller = """
            <script>fetch=async()=>({ok:true,json:async()=>(\(document))});\
            setTimeout(()=>parent.postMessage([innerWidth,document.documentElement.scrollWidth,\
            document.querySelectorAll('.tile').length,document.querySelectorAll('.chart').length].join(' '),'*'),500)</script>
            """
        try File.write(StatusPage.html.replacing("</head>", with: teller + "</head>"), to: folder.file("\(name).html"))
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
        let shown = state.document
        #expect(numbers[2] == 8 * shown.reading.lists.count)
        #expect(numbers[3] == 3 * shown.history.lists.count + 2)
    }

    @Test func `the page of a daemon draws its document`() throws {
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
        #expect(document.contains("<figcaption>Sent per second"))
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

/// A headless Chromium. Tests that need it are skipped where it is absent.
enum Browser {
    static let program = (["/usr/bin/chromium", "/usr/bin/chromium-browser"] as [String]).first { access($0, X_OK) == 0 }

    /// Writes a screenshot of the page. A window is at least 500 pixels wide, so that a narrower page is shown enlarged.
    static func screenshot(_ page: String, to image: String, width: Int, height: Int, isDark: Bool) throws {
        let scheme = "--blink-settings=preferredColorScheme=\(isDark ? 0 : 1)"
        let size = width < 500 ? "500,\(height * 500 / width)" : "\(width),\(height)"
        try run([scheme, "--hide-scrollbars", "--window-size=\(size)", "--screenshot=\(image)", "file://\(page)"])
    }

    /// Returns the document after its scripts have run.
    static func document(_ page: String, width: Int) throws -> String {
        let file = "\(page).dom"
        try run(["--window-size=\(max(500, width)),900", "--dump-dom", "file://\(page)"], to: file)
        return File.read(file)
    }

    private static func run(_ arguments: [String], to output: String? = nil) throws {
        let folder = TemporaryFolder()
        let common = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--user-data-dir=\(folder.file("profile"))", "--virtual-time-budget=2500",
        ]
        let process = try ChildProcess(
            program ?? "chromium", common + arguments, standardOutput: output.map { .file($0) } ?? .discarded)
        guard process.wait(atMost: .seconds(120))?.status == 0 else { throw HarnessError("Chromium failed: \(arguments)") }
    }
}
