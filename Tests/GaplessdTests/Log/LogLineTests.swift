import Glibc
import JSONBytes
import Testing

@testable import gaplessd

@Suite("The wording of a log line")
struct LogLineTests {
    private let job = Array(#"{"token": "071c", "data":{"a":1.0}}"#.utf8)

    @Test func `Each line has the wording of the contract, byte for byte`() {
        let fixture = LogFixture()
        fixture.log.sent([job])
        fixture.log.retrying(identifier: "154", "503 ServiceUnavailable", count: 1)
        fixture.log.final(identifier: "154", "410 Unregistered", job: job)
        fixture.log.badJob(Array(#"{"token": "071c" "data":1}"#.utf8), .unmarshal("expected ',' at byte 17"), redacts: false)
        fixture.log.badJob(Array("{}".utf8), .structure("token is missing"), redacts: false)
        let lines = fixture.finish()
        #expect(lines.output == "[Gapless I] STAMP Sent: {\"token\": \"071c\", \"data\":{\"a\":1.0}}.\n")
        #expect(
            lines.errors == """
                [Gapless W] STAMP SendPayload Error (ID 154): 503 ServiceUnavailable. Retrying count (1).
                [Gapless E] STAMP Final SendPayload Error (ID 154): 410 Unregistered | {"token": "071c", "data":{"a":1.0}}.
                [Gapless E] STAMP Json unmarshal error ({"token": "071c" "data":1}): expected ',' at byte 17.
                [Gapless E] STAMP Parsing apns structure error ({}): token is missing.

                """)
    }

    @Test func `Line breaks between the tokens of a sent job become spaces`() {
        for format in LogFormat.allCases {
            let fixture = LogFixture(format: format)
            fixture.log.sent([Array("\n{\r\n\"a\":\n1}\r".utf8), job, Array("\n\n".utf8)])
            let lines = fixture.finish().output.split(separator: "\n")
            #expect(lines.count == 3)
            #expect(lines.first?.contains(" {  \"a\": 1} ") == true)
            #expect(!lines.contains { $0.contains("\r") })
        }
    }

    @Test func `Debug and information go to the first stream, warnings and errors to the second`() {
        let fixture = LogFixture()
        fixture.log.debug("a")
        fixture.log.info("b")
        fixture.log.warning("c")
        fixture.log.error("d")
        let lines = fixture.finish()
        #expect(lines.output == "[Gapless D] STAMP a\n[Gapless I] STAMP b\n")
        #expect(lines.errors == "[Gapless W] STAMP c\n[Gapless E] STAMP d\n")
    }

    @Test(arguments: [(LogLevel.debug, "abcd"), (.info, "bcd"), (.warning, "cd"), (.error, "d")])
    func `A level suppresses the lines below it`(level: LogLevel, kept: String) {
        let fixture = LogFixture(level: level)
        fixture.log.debug("a")
        fixture.log.info("b")
        fixture.log.warning("c")
        fixture.log.error("d")
        fixture.log.sent([job])
        fixture.log.retrying(identifier: "1", "500", count: 1)
        let lines = fixture.finish()
        let sentences = (lines.output + lines.errors).split(separator: "\n").compactMap(\.last).filter("abcd".contains)
        #expect(String(sentences) == kept)
        #expect(lines.output.contains("Sent") == (level <= .info))
        #expect(lines.errors.contains("Retrying") == (level <= .warning))
    }

    @Test func `The format journal adds a priority to the same text`() {
        let fixture = LogFixture(format: .journal)
        fixture.log.debug("a")
        fixture.log.sent([job])
        fixture.log.warning("c")
        fixture.log.error("d")
        let lines = fixture.finish()
        #expect(
            lines.output == "<7>[Gapless D] STAMP a\n<6>[Gapless I] STAMP Sent: {\"token\": \"071c\", \"data\":{\"a\":1.0}}.\n")
        #expect(lines.errors == "<4>[Gapless W] STAMP c\n<3>[Gapless E] STAMP d\n")
    }

    @Test func `A hostile job stays on its line and shows its bytes`() {
        let fixture = LogFixture()
        let bytes =
            Array("{\n\t\"a\r\n\u{1b}[31m".utf8) + [0x00, 0xFF, 0xC3, 0x28, 0x7F, 0xC2, 0x85, 0xE2, 0x82] + Array("ü€".utf8)
        fixture.log.badJob(bytes, .unmarshal("no\nJSON"), redacts: false)
        fixture.log.final(identifier: "a\nb", "400 Bad\u{7}Reason", job: job)
        #expect(
            fixture.finish().errors == """
                [Gapless E] STAMP Json unmarshal error ({ \t"a  \\x1b[31m\\x00\\xff\\xc3(\\x7f\\xc2\\x85\\xe2\\x82ü€): no JSON.
                [Gapless E] STAMP Final SendPayload Error (ID a b): 400 Bad\\x07Reason | {"token": "071c", "data":{"a":1.0}}.

                """)
    }

    @Test(arguments: [("x", "1 byte"), ("xy", "2 bytes")])
    func `With redaction the line of a bad job contains only its size`(job: String, size: String) {
        let fixture = LogFixture()
        fixture.log.badJob(Array(job.utf8), .structure("token is missing"), redacts: true)
        #expect(fixture.finish().errors == "[Gapless E] STAMP Parsing apns structure error (\(size)): token is missing.\n")
    }

    @Test func `A job of twenty megabytes is cut between two characters`() {
        let fixture = LogFixture()
        // 65,535 bytes, and the two of an ü lie on the border.
        var bytes = [UInt8](repeating: UInt8(ascii: "x"), count: 20 << 20)
        bytes.replaceSubrange(65_535...65_536, with: Array("ü".utf8))
        fixture.log.badJob(bytes, .structure("token is missing"), redacts: false)
        let text = String(repeating: "x", count: 65_535)
        #expect(
            fixture.finish().errors
                == "[Gapless E] STAMP Parsing apns structure error (\(text)… (20971520 bytes)): token is missing.\n")
    }

    @Test func `Bytes that are not UTF-8 are cut, too`() {
        let fixture = LogFixture()
        fixture.log.badJob([UInt8](repeating: 0x80, count: 70_000), .unmarshal("bad"), redacts: false)
        #expect(fixture.finish().errors.hasSuffix("\\x80… (70000 bytes)): bad.\n"))
    }

    @Test func `A valid job of more than a megabyte is cut, too`() {
        let fixture = LogFixture()
        fixture.log.sent([[UInt8](repeating: UInt8(ascii: "1"), count: LogLines.mostJobBytes)])
        fixture.log.sent([[UInt8](repeating: UInt8(ascii: "1"), count: LogLines.mostJobBytes + 1)])
        let lines = fixture.finish().output.split(separator: "\n")
        #expect(lines.first?.hasSuffix("1.") == true)
        #expect(lines.last?.hasSuffix("1… (1048577 bytes).") == true)
    }

    @Test(arguments: [LogFormat.journal, .text])
    func `A line for the journal has at most 40 KiB, and each part begins like a line of ours`(format: LogFormat) {
        let (output, errors) = (TestPipe(socket: true), TestPipe(socket: true))
        let log = try! Log(format: format, output: output.writer, errors: errors.writer)
        let hostile = String(repeating: "<0>é", count: 8000)
        log.final(identifier: "\"\(hostile)\"", hostile, job: Array("{\"x\":\"\(hostile)\"}".utf8))
        log.badJob(Array((hostile + hostile).utf8), .structure("bad"), redacts: false)
        log.error(hostile + hostile)
        log.sent([Array("{\"x\":\"\(hostile)\"}".utf8)])
        let beginning = format == .journal ? #/<[36]>\[Gapless [EI]\] [^<]*/# : #/\[Gapless [EI]\] [^<]*/#
        let lines = errors.read(lines: 7) + output.read(lines: 1)
        log.close()
        #expect(lines.count == 8)
        #expect(lines.allSatisfy { $0.utf8.count < 40 << 10 && $0.prefixMatch(of: beginning) != nil })
        #expect(lines.count { $0.contains(" (continued) ") } == 4)
        let text = lines.map { $0.split(separator: "(continued) ").last ?? "" }.joined()
        #expect(text.split(separator: "<0>é", omittingEmptySubsequences: false).count > 8000)
        #expect(!text.contains("\u{FFFD}"))
    }

    @Test func `Unprintable characters of a valid job are escaped for people, and unchanged in a file`() throws {
        let job = Array("{\"x\":\"\u{7F}\u{85}\u{9B}\u{2028}\u{2029}é\"}".utf8)
        let escaped = #"{"x":"\u007f\u0085\u009b\u2028\u2029é"}"#
        let (before, after) = (try JSONValue.parse(job), try JSONValue.parse(Array(escaped.utf8)))
        #expect(before == after)
        for (format, target, isEscaped) in [
            (LogFormat.text, LogTarget.file, false), (.text, .other, false), (.text, .terminal, true), (.text, .socket, true),
            (.json, .terminal, true), (.journal, .file, true),
        ] {
            var lines = LogLines(format: format, target: target)
            lines.refresh()
            lines.sent(job)
            let text = String(decoding: lines.bytes, as: UTF8.self)
            #expect(text.contains(isEscaped ? escaped : String(decoding: job, as: UTF8.self)), "\(format) \(target)")
        }
        #expect(String(decoding: Job.onOneLine(job), as: UTF8.self) == escaped)
    }

    @Test(arguments: [LogFormat.text, .journal, .json])
    func `No line about a job shows an unprintable character of its identifier or reason`(format: LogFormat) {
        let hostile = "a\u{7F}\u{9B}\u{2028}\u{2029}b"
        let fixture = LogFixture(format: format)
        fixture.log.retrying(identifier: "\"\(hostile)\"", hostile, count: 1)
        fixture.log.final(identifier: "\"\(hostile)\"", hostile, job: job)
        fixture.log.badJob(Array(hostile.utf8), .structure(hostile), redacts: false)
        let lines = fixture.finish().errors.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 4)
        #expect(lines.allSatisfy { !$0.unicodeScalars.contains { $0.isUnprintable } }, "\(lines)")
    }

    @Test func `Both stamps name the same second, in local time`() throws {
        for time in [0, 951_782_399, 1_795_215_001, 4_102_444_800] {
            var stamps = LogStamps()
            stamps.set(time)
            let match = try #require(
                stamps.rfc3339.wholeMatch(of: #/(\d+)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.000([+-]\d\d):(\d\d)/#))
            let (_, year, month, day, hour, minute, second, zone, zoneMinutes) = match.output
            #expect(stamps.local == "\(year)/\(month)/\(day) \(hour):\(minute):\(second)")
            var parts = tm()
            parts.tm_year = (Int32(year) ?? 0) - 1900
            parts.tm_mon = (Int32(month) ?? 0) - 1
            parts.tm_mday = Int32(day) ?? 0
            parts.tm_hour = Int32(hour) ?? 0
            parts.tm_min = Int32(minute) ?? 0
            parts.tm_sec = Int32(second) ?? 0
            let offset = (Int(zone) ?? 0) * 3600 + (zone.hasPrefix("-") ? -60 : 60) * (Int(zoneMinutes) ?? 0)
            #expect(timegm(&parts) - offset == time)
        }
        var stamps = LogStamps()
        let isNew = stamps.refresh()
        #expect(isNew)
    }
}

@Suite("The log as JSON")
struct LogJSONTests {
    private func values(_ write: (Log) -> Void) throws -> [JSONValue] {
        let fixture = LogFixture(format: .json)
        write(fixture.log)
        let lines = fixture.finish()
        return try (lines.output + lines.errors).split(separator: "\n").map { try JSONValue.parse(Array($0.utf8)) }
    }

    @Test func `Each line is an object with time, level and message`() throws {
        let values = try values { log in
            log.info("a \"quoted\" \\ line\nand\u{1}more\u{85}")
            log.error("b")
        }
        #expect(values.map { $0["level"]?.stringValue } == ["info", "error"])
        #expect(values.map { $0["message"]?.stringValue } == ["a \"quoted\" \\ line\nand\u{1}more\u{85}", "b"])
        for value in values {
            #expect(value["time"]?.stringValue?.wholeMatch(of: #/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\d[+-]\d\d:\d\d/#) != nil)
        }
    }

    @Test func `The facts about a job are fields, and the job is unchanged`() throws {
        let job = Array(#"{"token":"07","data":{"n":1.50}}"#.utf8)
        let values = try values { log in
            log.sent([job])
            log.retrying(identifier: "154", "503 ServiceUnavailable", count: 2)
            log.final(identifier: #""a\"b""#, "410 Unregistered", job: job)
        }
        #expect(values.map { $0["message"]?.stringValue } == ["Sent", "SendPayload Error", "Final SendPayload Error"])
        #expect(values[0]["job"]?["data"]?["n"] == .number("1.50"))
        #expect(values[1]["identifier"]?.integerValue == 154)
        #expect(values[2]["identifier"]?.stringValue == "a\"b")
        #expect(values[1]["reason"]?.stringValue == "503 ServiceUnavailable")
        #expect(values[1]["retry"]?.integerValue == 2)
        #expect(values[2]["job"]?["token"]?.stringValue == "07")
    }

    @Test func `Bytes that are not a job are a string, cut and counted`() throws {
        let values = try values { log in
            log.badJob(Array("{\"a\\\n\0".utf8) + [0xFF], .unmarshal("bad"), redacts: false)
            log.badJob([UInt8](repeating: UInt8(ascii: "y"), count: 70_000), .structure("bad"), redacts: false)
            log.badJob(Array("{}".utf8), .structure("bad"), redacts: true)
        }
        #expect(values[0]["job_text"]?.stringValue == "{\"a\\\n\0\u{FF}")
        #expect(values[0]["job_bytes"] == nil)
        #expect(values[1]["job_text"]?.stringValue?.count == 64 << 10)
        #expect(values[1]["job_bytes"]?.integerValue == 70_000)
        #expect(values[2]["job_text"] == nil)
        #expect(values[2]["job_bytes"]?.integerValue == 2)
    }
}
