import Harness
import Testing

/// Whether a process may have a network of its own, in which the ports of the README are free.
private let hasNetworks =
    (try? ChildProcess("unshare", QuickStartTests.namespaces + ["ip", "link", "set", "lo", "up"]).wait(atMost: .seconds(20))?
        .status)
    == 0

@Suite("The first push of the README", .blocking)
struct QuickStartTests {
    static let namespaces = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]

    /// The commands of the section, block by block.
    private static var blocks: [Substring] {
        guard
            let section = Checkout.read("README.md").split(separator: "## Your first push\n").last?.split(separator: "\n## ")
                .first
        else { return [] }
        return section.split(separator: "```sh\n").dropFirst().compactMap { $0.split(separator: "```").first }
    }

    @Test(.enabled(if: hasNetworks, "no namespaces for processes and networks"))
    func `shows on the page of the simulator and in the log, three commands after the start of Redis`() throws {
        let blocks = Self.blocks
        try #require(blocks.count == 3)
        let lines = blocks[1].split(separator: "\n")
        #expect(lines.count == 3)
        let folder = TemporaryFolder()
        let programs = BuiltProducts.path("gaplessd").split(separator: "/").dropLast().joined(separator: "/")
        let script = """
            cd "\(folder.path)"
            export PATH="/\(programs):$PATH" HOME="\(folder.path)"
            ip link set lo up
            redis-server --daemonize yes --save '' --dir "\(folder.path)"
            until redis-cli ping; do :; done
            began=$(date +%s%N)
            \(blocks[1])
            until curl -s http://127.0.0.1:8097/api/pushes | grep 'Hello from my own queue'; do :; done
            echo "shown after $(( ($(date +%s%N) - began) / 1000000 )) ms"
            until gaplessd status demo.json | grep 'in flight *0'; do :; done
            \(blocks[2])
            wait
            redis-cli shutdown nosave
            """
        let shell = try ChildProcess(
            "unshare", Self.namespaces + ["bash", "-c", script], standardOutput: .file(folder.file("out")),
            standardError: .file(folder.file("out")))
        let exit = shell.wait(atMost: .seconds(120))
        let output = File.read(folder.file("out"))
        #expect(exit?.status == 0, "\(output)")
        // A figure for the reader of the log, and no limit: the machine may be busy.
        let shown = try #require(output.split(separator: "\n").first { $0.hasPrefix("shown after ") }, "\(output)")
        print("README: the first push is \(shown) and \(lines.count) typed lines, with a sleep of 1 s")
        #expect(output.contains("settings demo.json\n"), "\(output)")
        #expect(
            output.contains(#"Sent: {"token": "0a1b2c", "data": {"aps": {"alert": "Hello from my own queue"}}}."#), "\(output)")
        #expect(output.contains("balances"), "\(output)")
        #expect(output.contains("gaplessd stopped") || output.contains("Stopped"), "\(output)")
    }

    @Test func `is the text at the end of make demo as well`() {
        let demo = Checkout.read("Lab/Bench/Demo.swift")
        for line in Self.blocks[1].split(separator: "\n") { #expect(demo.contains(line), "\(line)") }
    }
}
