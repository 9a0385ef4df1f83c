import Glibc
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd enqueue")
struct EnqueueCallTests {
    @Test func `pushes the lines of files and standard input in order, byte for byte`() throws {
        let stage = try CallStage()
        let lines = (0..<1200).map { CallStage.job(String($0, radix: 16), marks: ",\"identifier\":\($0)") }
        try File.write(lines.prefix(1000).joined(separator: "\n") + "\n", to: stage.folder.file("one"))
        try File.write(lines.dropFirst(1000).joined(separator: "\r\n"), to: stage.folder.file("two"))
        let files = try stage.shell("$G enqueue $S one two")
        #expect(files.status == 0)
        #expect(files.output == "1,200 jobs pushed to calls\n" && files.errors == "")
        #expect(try stage.elements("calls") == lines)
        #expect(try stage.shell("cat one | $G enqueue $S").output == "1,000 jobs pushed to calls\n")
        #expect(try stage.shell("cat one | $G enqueue $S two -").output == "1,200 jobs pushed to calls\n")
        #expect(try stage.redis("LLEN", "calls") == .integer(3400))
    }

    @Test func `reports invalid lines by file and number, pushes the others and exits with 65`() throws {
        let stage = try CallStage()
        let good = [CallStage.job("aa"), CallStage.job("bb"), #"{"tokens":["aa","zz"],"data":{}}"#]
        let lines = [
            good[0], "", "nonsense", "  \t", #"{"token":"zz","data":{}}"#, good[1], #"{"token":"aa"}"#,
            #"{"tokens":["x","y"],"data":{}}"#,
            good[2], #"{"token":"aa","data":{},"app":"none"}"#, #"{"token":"aa","data":{"#,
        ]
        try File.write(lines.joined(separator: "\n"), to: stage.folder.file("jobs"))
        let result = try stage.shell("$G enqueue $S jobs")
        #expect(result.status == 65)
        #expect(result.output == "3 jobs pushed to calls, 6 invalid lines\n")
        #expect(
            result.errorLines
                == [
                    "jobs:3: expected '{' at byte 0", "jobs:5: token is not hex at byte 10", "jobs:7: data is missing",
                    "jobs:8: no valid token; first fault: token is not hex",
                    "jobs:9: 1 of 2 tokens are invalid; first fault: token is not hex",
                    "jobs:10: app \"none\" is unknown at byte 30", "jobs:11: expected '}' at byte 22",
                ].map { $0.replacing("jobs:11: expected '}' at byte 22", with: result.errorLines.last ?? "") })
        #expect(result.errorLines.last?.hasPrefix("jobs:11: expected ") == true)
        #expect(try stage.elements("calls") == good)
    }

    @Test func `reports a job without an app or a topic, as far as it can read the certificates`() throws {
        let top = ["apns_auth_key_path", "apns_auth_key_id", "apns_team_id", "apns_topic"].map { ($0, String?.none) }
        let stage = try CallStage.withApps(Dictionary(uniqueKeysWithValues: top))
        let lines = [
            CallStage.job("a1"), CallStage.job("a2", marks: #","app":"voice""#),
            CallStage.job("a3", marks: #","topic":"com.cert.more""#), CallStage.job("a4", marks: #","topic":"com.other""#),
            CallStage.job("a5", marks: #","app":"cert""#), CallStage.job("a6", marks: #","app":"bare""#),
            CallStage.job("a7", marks: #","app":"bare","topic":"com.bare""#),
            CallStage.job("a8", marks: #","topic":"com.voice","push_type":"voip""#),
        ]
        try File.write(lines.joined(separator: "\n"), to: stage.folder.file("jobs"))
        let missing = "jobs:1: app and topic are missing, and the settings have no credential at the top level"
        let bare = #"jobs:6: topic is missing, and app "bare" has none"#
        let result = try stage.shell("$G enqueue $S jobs")
        #expect(result.status == 65 && result.output == "5 jobs pushed to calls, 3 invalid lines\n")
        #expect(result.errorLines == [missing, "jobs:4: no app has the topic com.other", bare])
        #expect(try stage.elements("calls") == [1, 2, 4, 6, 7].map { lines[$0] })
        #expect(unlink(stage.folder.file("cert/client.pem")) == 0)
        let blind = try stage.shell("$G enqueue $S jobs")
        #expect(blind.status == 65 && blind.output == "6 jobs pushed to calls, 2 invalid lines\n")
        #expect(blind.errorLines == [missing, bare])
    }

    @Test func `accepts empty input`() throws {
        let stage = try CallStage()
        let result = try stage.shell("$G enqueue $S < /dev/null")
        #expect(result.status == 0 && result.output == "0 jobs pushed to calls\n")
    }

    @Test func `pushes to the first list unless --list selects another`() throws {
        let stage = try CallStage(lists: ["first", "second"])
        try File.write(CallStage.job("aa"), to: stage.folder.file("jobs"))
        #expect(try stage.shell("$G enqueue $S jobs").output == "1 job pushed to first\n")
        #expect(try stage.shell("$G enqueue $S jobs --list second").output == "1 job pushed to second\n")
        let wrong = try stage.shell("$G enqueue $S jobs --list third")
        #expect(wrong.status == 64 && wrong.errors.contains("'third' is not in redis_queue_key (first, second)"))
    }

    @Test func `pushes nothing if a file cannot be read`() throws {
        let stage = try CallStage()
        try File.write(CallStage.job("aa"), to: stage.folder.file("jobs"))
        let result = try stage.shell("$G enqueue $S jobs missing")
        #expect(result.status == 1)
        #expect(result.errors == "missing: No such file or directory\n")
        #expect(try stage.shell("$G enqueue $S .").errors == ".: Is a directory\n")
        #expect(try stage.redis("LLEN", "calls") == .integer(0))
    }

    @Test func `pushes the lines of a pipe immediately, and exits with 69 when Redis is lost`() throws {
        let stage = try CallStage()
        let fifo = stage.folder.file("fifo")
        #expect(mkfifo(fifo, 0o600) == 0)
        // Opens both ends, so that neither open(2) blocks.
        let writer = open(fifo, O_RDWR | O_CLOEXEC)
        defer { close(writer) }
        let (process, out, err) = try stage.start("enqueue", [fifo])
        func write(_ jobs: Range<Int>) {
            let bytes = Array(jobs.map { CallStage.job(String($0, radix: 16)) + "\n" }.joined().utf8)
            #expect(Glibc.write(writer, bytes, bytes.count) == bytes.count)
        }
        write(0..<10)
        #expect(try waitUntil { try stage.redis("LLEN", "calls") == .integer(10) })
        // The second batch is sent after the first is acknowledged.
        write(10..<11)
        #expect(try waitUntil { try stage.redis("LLEN", "calls") == .integer(11) })
        stage.redis.kill()
        write(11..<13)
        #expect(process.wait(atMost: .seconds(30))?.status == 69)
        #expect(File.read(out) == "")
        let errors = File.read(err)
        #expect(errors.hasPrefix("redis: no response: ") && errors.split(separator: "\n").count == 1, "\(errors)")
        #expect(
            try #/; 1[01] jobs pushed to calls, and possibly [1-3] more\n/#.firstMatch(in: errors) != nil, "\(errors)")
    }

    @Test func `exits with 69 when Redis is full, and prints the number of pushed jobs`() throws {
        let stage = try CallStage(redis: ["--maxmemory", "4mb", "--maxmemory-policy", "noeviction"])
        let filler = String(repeating: "x", count: 3900)
        let script = #"for i in $(seq 1 4000); do echo '{"token":"aa","data":{"aps":{"alert":"\#(filler)"}}}'; done > much"#
        #expect(try stage.shell(script).status == 0)
        let result = try stage.shell("$G enqueue $S much")
        #expect(result.status == 69)
        #expect(result.errorLines.count == 1 && result.errors.contains("OOM "), "\(result.errors)")
        let pushed = try stage.redis("LLEN", "calls").integer ?? -1
        #expect(result.errors.hasSuffix("; \(pushed) jobs pushed to calls\n"), "\(pushed): \(result.errors)")
    }

    @Test(.disabled(if: Sanitizer.current != nil, "the memory of a sanitizer is resident"))
    func `holds at most one batch of a large file in memory`() throws {
        let stage = try CallStage(redis: ["--appendonly", "no"])
        // 40 MB of jobs of 4 kB.
        let filler = String(repeating: "x", count: 3900)
        let script = #"for i in $(seq 1 10000); do echo '{"token":"aa","data":{"aps":{"alert":"\#(filler)"}}}'; done > large"#
        #expect(try stage.shell(script).status == 0)
        let (process, out, _) = try stage.start("enqueue", [stage.folder.file("large")])
        // Sampled during the run: the peak that the kernel reports includes the process before exec.
        var peak = 0
        #expect(
            waitUntil(atMost: .seconds(60)) {
                peak = max(peak, processMemory(process.pid))
                return process.poll() != nil
            })
        #expect(File.read(out) == "10,000 jobs pushed to calls\n")
        #expect(1..<64 << 20 ~= peak, "\(peak)")
    }

    @Test func `shows progress only on a terminal`() throws {
        let stage = try CallStage()
        let script = "for i in $(seq 1 60000); do echo '{\"token\":\"aa\",\"data\":{}}'; done > many"
        #expect(try stage.shell(script).status == 0)
        let shown = try stage.shell(#"script -qec "$G enqueue $S many" /dev/null < /dev/null"#)
        #expect(shown.output.contains("% many: ") || shown.output.contains("% "), "\(shown.output.suffix(300))")
        #expect(shown.output.hasSuffix("60,000 jobs pushed to calls\r\n"))
        #expect(try stage.shell("$G enqueue $S many").errors == "")
    }
}

@Suite("Lines of a file")
struct LineReaderCallTests {
    private let folder = SettingsFolder()

    private func lines(_ path: String) throws -> [LineReader.Line] {
        var reader = try LineReader(path)
        var lines: [LineReader.Line] = []
        while let line = try reader.next() { lines.append(line) }
        return lines
    }

    private func line(_ text: String) -> LineReader.Line { .line(Array(text.utf8)) }

    @Test func `end with LF or CR LF; the last line end is optional`() throws {
        #expect(try lines(folder.write("a\r\n\nb\rc\n\r\nd")) == [line("a"), line(""), line("b\rc"), line(""), line("d")])
        #expect(try lines(folder.write("")) == [])
        #expect(try lines(folder.write("\n")) == [line("")])
    }

    @Test func `do not contain the byte order mark of the file`() throws {
        #expect(try lines(folder.write("\u{FEFF}a\n\u{FEFF}b")) == [line("a"), line("\u{FEFF}b")])
    }

    @Test func `are complete wherever the reads end`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("LineReaderCallTests seed \(seed)")
        var state = seed
        let texts = (0..<200).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return String(repeating: "x", count: Int(state >> 40) % 9000)
        }
        #expect(try lines(folder.write(texts.joined(separator: "\n") + "\n")) == texts.map(line), "seed \(seed)")
    }

    @Test func `longer than 24 MiB are discarded and counted`() throws {
        let path = folder.file("huge")
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(file) }
        // A sparse file: one line of exactly the limit, one line a byte longer.
        let longest = off_t(LineReader.longestLine)
        pwrite(file, "\n", 1, longest)
        pwrite(file, "\nb", 2, longest + 1 + longest + 1)
        var reader = try LineReader(path)
        guard case .line(let first) = try reader.next() else { throw Unexpected("no line") }
        #expect(first.count == LineReader.longestLine)
        #expect(try reader.next() == .tooLong)
        #expect(try reader.next() == line("b") && reader.number == 3)
    }
}
