import Foundation
import Harness
import JSONBytes
import Testing

@testable import gaplessd

@Suite("Log events")
struct LogEventTests {
    private let push = LoggedPush(app: "be ta", apnsID: "id", attempt: 2, status: 503, trace: "a b\nc", campaign: "sale")

    @Test func `docs/log.md lists each event of the program, and no other`() {
        let rows = File.read("\(Checkout.path)/docs/log.md").split(separator: "\n").filter { $0.hasPrefix("| `") }
        let names = rows.map { String($0.dropFirst(3).prefix { $0 != "`" }) }
        #expect(names == LogEvent.allCases.map(\.rawValue))
        #expect(rows.allSatisfy { $0.split(separator: "|").count == 3 })
        #expect(names.allSatisfy { $0.allSatisfy { $0.isLowercase || $0 == "_" } })
    }

    /// The code of the program, without the list of events.
    private static var product: String {
        let folder = "\(Checkout.path)/Sources/gaplessd"
        let files = FileManager.default.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
        return files.filter { $0.hasSuffix(".swift") && !$0.hasSuffix("LogEvent.swift") }.map { File.read("\(folder)/\($0)") }
            .joined()
    }

    @Test func `each event is used`() {
        let code = Self.product
        for event in LogEvent.allCases {
            #expect(code.contains(".\(event)"), "\(event)")
        }
    }

    private func lines(_ format: LogFormat) -> (output: String, errors: String) {
        let fixture = LogFixture(format: format)
        fixture.log.sent(Array("{}".utf8), push)
        fixture.log.retrying(identifier: "1", "503", count: 1, push)
        fixture.log.final(identifier: "1", "410", job: Array("{}".utf8), push)
        fixture.log.warning("x", .appHeld)
        return fixture.finish()
    }

    @Test func `json has them as fields`() throws {
        let (output, errors) = lines(.json)
        let values = try (output + errors).split(separator: "\n").map { try JSONValue.parse(Array($0.utf8)) }
        let events = ["push_sent", "push_retrying", "push_failed", "app_held"]
        #expect(values.map { $0["event"]?.stringValue } == events)
        for value in values.dropLast() {
            #expect(value["app"]?.stringValue == "be ta" && value["apns_id"]?.stringValue == "id")
            #expect(value["status"]?.integerValue == 503)
            #expect(value["attempt"]?.integerValue == 2 && value["trace"]?.stringValue == "a b\nc")
            #expect(value["campaign"]?.stringValue == "sale")
        }
    }

    @Test func `the journal has the event of a sentence as its last word; text and the lines about jobs have none`() {
        let journal = lines(.journal)
        #expect(journal.errors.hasSuffix("x event=app_held\n"))
        let text = lines(.text)
        #expect(text.errors.hasSuffix("x\n"))
        for jobs in [journal.output, text.output, journal.errors.replacing("event=app_held", with: ""), text.errors] {
            #expect(!jobs.contains("event") && !jobs.contains("be ta") && !jobs.contains("attempt"), "\(jobs)")
        }
    }
}
