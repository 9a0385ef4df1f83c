import Glibc
import Harness

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
