import JSONBytes
import Testing

@testable import gaplessd

@Suite("A record that a command prints")
struct RecordLineTests {
    private static let hostile = "a\u{7F}\u{9B}\u{2028}\u{2029}\u{1B}[31mb"

    private func isPrintable(_ line: String) -> Bool { !line.unicodeScalars.contains { $0.isUnprintable } }

    @Test func `shows no unprintable character of a dead letter`() throws {
        let hostile = Self.hostile
        let letter = DeadLetter(
            reason: hostile, status: 400, apnsID: hostile, identifier: Array("\"a\u{9B}\"".utf8), token: hostile, attempts: 1,
            at: 1_795_218_609, worker: hostile, job: Array(#"{"token":"\#(hostile)"}"#.utf8))
        let entry = (record: letter.record(), letter: Optional(letter))
        let lines = [DeadLetterLine.text(entry, Redaction(isOn: false)), DeadLetterLine.json(entry)]
        for line in lines + DeadLetterLine.full(entry, Redaction(isOn: false)) { #expect(isPrintable(line), "\(line)") }
        #expect(DeadLetter(record: Array(DeadLetterLine.json(entry).utf8))?.job == letter.job)
    }

    @Test func `shows no unprintable character of an entry of the feedback list`() throws {
        let entry = Array("{\"status\": 410, \"reason\": \"a\u{7F}\u{9B}\u{2028}\", \"token\": \"\u{85}\"}".utf8)
        let line = FeedbackLine.json(entry)
        #expect(isPrintable(line) && isPrintable(FeedbackLine.text(entry, Redaction(isOn: false))), "\(line)")
        #expect(try JSONValue.parse(Array(line.utf8))["reason"]?.stringValue == "a\u{7F}\u{9B}\u{2028}")
    }
}
