import CLinux
import Glibc
import Harness
import Platform
import Testing

@testable import gaplessd

@Suite("A log that cannot be written stops nothing", .timeLimit(.minutes(30)))
struct LogWriterTests {
    /// About 12 MB: more than the writer's buffer and a pipe hold.
    private let many = 30_000
    private let job = [UInt8](repeating: UInt8(ascii: "j"), count: 380)

    init() { signal(SIGPIPE, SIG_IGN) }

    @Test func `A warning is written at once, with the information before it`() {
        let fixture = LogFixture()
        fixture.log.info("first")
        fixture.log.warning("second")
        #expect(waitUntil { fixture.errors.contains("second") })
        #expect(fixture.output.contains("first"))
    }

    @Test func `Information is written soon without a warning after it`() {
        let fixture = LogFixture()
        fixture.log.info("alone")
        #expect(waitUntil { fixture.output.contains("alone") })
    }

    @Test func `Threads may log at once, and each line stays whole`() {
        let fixture = LogFixture()
        let log = fixture.log
        let one = try! OwnedThread(name: "a") { for _ in 0..<5000 { log.sent([Array("aaaaaaaaaa".utf8)]) } }
        let two = try! OwnedThread(name: "b") { for _ in 0..<5000 { log.sent([Array("bbbbbbbbbb".utf8)]) } }
        one.join()
        two.join()
        let lines = fixture.finish().output.split(separator: "\n")
        for letter in "ab" {
            let line = "[Gapless I] STAMP Sent: \(String(repeating: letter, count: 10))."
            #expect(lines.count { $0 == line } == 5000)
        }
        #expect(lines.count == 10_000)
    }

    @Test func `A reader that stops costs lines, which are counted, and reported once it reads again`() {
        let (output, errors) = (TestPipe(), TestPipe())
        let log = try! Log(output: output.writer, errors: errors.writer)
        for _ in 0..<many { log.sent([job]) }
        let dropped = log.droppedLines
        #expect(dropped > 0)
        let kept = many - dropped
        let seen = output.read(lines: kept)
        #expect(seen.count == kept)
        #expect(seen.allSatisfy { $0.utf8.count == seen.first?.utf8.count && $0.hasSuffix("j.") })
        #expect(
            errors.read(lines: 1).map { LogFixture.withoutStamps(String($0)) } == [
                "[Gapless W] STAMP The log could not be written: \(dropped) lines were dropped."
            ])
        log.close()
    }

    @Test func `A batch without enough room is written in part, and the rest is counted`() {
        let (output, errors) = (TestPipe(), TestPipe())
        let log = try! Log(output: output.writer, errors: errors.writer)
        log.sent([[UInt8]](repeating: job, count: many))
        let dropped = log.droppedLines
        #expect(dropped > 0)
        #expect(output.read(lines: many - dropped).count == many - dropped)
        log.close()
        log.sent([job, job])
        #expect(log.droppedLines == dropped + 2)
    }

    @Test func `A full pipe does not block, and the rest follows once there is room`() {
        let pipe = TestPipe()
        var sink = LogSink(descriptor: pipe.writer)
        var lines: [UInt8] = []
        for number in 0..<many { lines += Array("\(number)\n".utf8) }
        let all = lines
        sink.take(&lines)
        var dropped = sink.write()
        let isStuck = !sink.isEmpty
        #expect(isStuck)
        var seen: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        // There is something to read whenever this is asked: the pipe was filled right before.
        while seen.count < all.count {
            let count = read(pipe.reader, &buffer, buffer.count)
            if count <= 0 { break }
            seen += buffer[..<count]
            dropped += sink.write()
        }
        #expect(dropped == 0)
        #expect(seen == all)
    }

    @Test func `A reader that stops does not block the other stream or the close`() {
        let (output, errors) = (TestPipe(), TestPipe())
        let log = try! Log(output: output.writer, errors: errors.writer)
        for _ in 0..<many { log.sent([job]) }
        log.error("still here")
        #expect(errors.read(lines: 1).last?.hasSuffix("still here") == true)
        log.close()
    }

    @Test func `A closed pipe costs lines, and nothing else`() {
        let (output, errors) = (TestPipe(), TestPipe())
        output.closeReader()
        let log = try! Log(output: output.writer, errors: errors.writer)
        for _ in 0..<100 { log.sent([job]) }
        #expect(waitUntil { log.droppedLines == 100 })
        log.error("still here")
        #expect(errors.read(lines: 1).first?.hasSuffix("still here") == true)
        log.close()
    }

    @Test func `A full disk costs lines, and nothing else`() {
        let full = open("/dev/full", O_WRONLY)
        let errors = TestPipe()
        let log = try! Log(output: full, errors: errors.writer)
        for _ in 0..<100 { log.sent([job]) }
        #expect(waitUntil { log.droppedLines == 100 })
        log.close()
        close(full)
    }

    @Test func `A stream that was never open costs lines, and nothing else`() {
        let log = try! Log(output: -1, errors: -1)
        log.info("nobody")
        log.error("nobody")
        #expect(waitUntil { log.droppedLines == 2 })
        log.close()
    }

    @Test func `A socket takes lines, as under systemd`() {
        let journal = TestPipe(socket: true)
        let log = try! Log(output: journal.writer, errors: journal.writer)
        for _ in 0..<1000 { log.sent([job]) }
        #expect(journal.read(lines: 1000).count == 1000)
        log.close()
        #expect(log.droppedLines == 0)
    }

    @Test func `Two streams on one socket keep each line whole`() {
        let journal = TestPipe(socket: true)
        var size: CInt = 4096
        setsockopt(journal.writer, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<CInt>.size))
        let second = dup(journal.writer)
        defer { close(second) }
        let log = try! Log(format: .text, output: journal.writer, errors: second)
        log.error("\(String(repeating: "e", count: 30_000)) end")
        // The socket is full, and most of the line waits.
        #expect(waitUntil { journal.hasBytes })
        log.info("information")
        let lines = journal.read(lines: 2)
        log.close()
        #expect(lines.map { $0.split(separator: " ").last } == ["end", "information"])
    }

    @Test func `A line after the close is dropped and counted`() {
        let fixture = LogFixture()
        fixture.log.close()
        fixture.log.close()
        fixture.log.error("late")
        #expect(fixture.log.droppedLines == 1)
        #expect(fixture.errors.isEmpty)
    }
}
