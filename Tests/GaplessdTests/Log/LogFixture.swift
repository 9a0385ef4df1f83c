import CLinux
import Glibc
import JSONBytes
import Platform

@testable import gaplessd

/// A log whose two streams are files in a temporary folder.
final class LogFixture {
    let log: Log
    private let folder: SettingsFolder
    private let descriptors: [CInt]

    init(format: LogFormat = .text, level: LogLevel = .debug) {
        let folder = SettingsFolder()
        descriptors = ["out", "err"].map { open(folder.file($0), O_WRONLY | O_CREAT | O_APPEND, 0o600) }
        self.folder = folder
        log = try! Log(format: format, level: level, output: descriptors[0], errors: descriptors[1])
    }

    deinit {
        log.close()
        for descriptor in descriptors { close(descriptor) }
    }

    /// The content of the files now.
    var output: String { text("out") }
    var errors: String { text("err") }

    private func text(_ name: String) -> String {
        String(decoding: (try? FileBytes.read(folder.file(name), atMost: 64 << 20)) ?? [], as: UTF8.self)
    }

    /// Both streams once the log is closed, each stamp as `STAMP`.
    func finish() -> (output: String, errors: String) {
        log.close()
        return (Self.withoutStamps(output), Self.withoutStamps(errors))
    }

    static func withoutStamps(_ text: String) -> String {
        text.replacing(#/\d{4}/\d\d/\d\d \d\d:\d\d:\d\d/#, with: "STAMP")
    }
}

/// A pipe, or a stream socket as systemd's journal uses it. Closes both ends when it is freed.
final class TestPipe {
    private(set) var reader: CInt
    let writer: CInt

    init(socket isSocket: Bool = false) {
        var ends: [CInt] = [0, 0]
        let status = isSocket ? socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) : pipe(&ends)
        precondition(status == 0, "no pipe: errno \(errno)")
        (reader, writer) = (ends[0], ends[1])
    }

    deinit {
        closeReader()
        close(writer)
    }

    func closeReader() {
        if reader >= 0 { close(reader) }
        reader = -1
    }

    /// Whether a read would return bytes now.
    var hasBytes: Bool {
        var one = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
        return poll(&one, 1, 0) > 0
    }

    /// Reads this many lines, for a minute at most. Returns the lines without their ends.
    func read(lines wanted: Int) -> [Substring] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        var seen = 0
        let deadline = Instant.now + .seconds(60)
        while seen < wanted, .now < deadline {
            var one = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
            guard poll(&one, 1, 100) > 0 else { continue }
            let count = Glibc.read(reader, &buffer, buffer.count)
            if count <= 0 { break }
            seen += buffer[..<count].count { $0 == UInt8(ascii: "\n") }
            bytes += buffer[..<count]
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    }
}
