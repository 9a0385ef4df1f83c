import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("docs/live-activities.md", .blocking)
struct LiveActivitiesPageTests {
    /// The blocks of a kind, without their fences.
    private static func blocks(_ kind: String) -> [String] {
        let parts = Checkout.read("docs/live-activities.md").split(separator: "```").enumerated()
        return parts.filter { $0.offset % 2 == 1 && $0.element.hasPrefix("\(kind)\n") }.map {
            String($0.element.dropFirst(kind.count + 1))
        }
    }

    private static var settings: [String: String?] {
        get throws {
            var settings: [String: String?] = [:]
            for text in blocks("json settings") {
                guard case .object(let members) = try JSONValue.parse(Array(text.utf8)) else { continue }
                for member in members { settings[member.key] = member.value.line }
            }
            return settings
        }
    }

    @Test func `each job of the page is delivered in the order of the page`() throws {
        let stage = try Stage { $0.channels = [.init(app: Stage.topic, id: "dHN0LXNyY2gtY2hubA==")] }
        let daemon = try stage.startOpen(try Self.settings)
        let jobs = Self.blocks("json job")
        #expect(jobs.count >= 7 && jobs.count { $0.contains("replaces") } >= 2)
        for (number, job) in jobs.enumerated() {
            try stage.push(job)
            #expect(try stage.settles(number + 2), "\(job)\n\(daemon.standardError.suffix(500))")
        }
        let record = try #require(try stage.command("HGET", stage.keys.channels, "match-1").text)
        let keys = Self.keys(record)
        let sample = try #require(
            Checkout.read("docs/live-activities.md").split(separator: "\n").first { $0.hasPrefix("    {\"id\"") })
        #expect(keys == Self.keys(String(sample)))
        #expect(stage.simulator.ledger.requests(for: "80a1b2c3").last?.pushType == "liveactivity")
        #expect(
            try waitUntil { try stage.command("HGET", stage.keys.channels, "match-1").text?.contains("\"ended\": null") == false }
        )
        #expect(daemon.stop()?.status == 0)
    }

    private static func keys(_ text: String) -> [String] {
        guard case .object(let members)? = try? JSONValue.parse(Array(text.utf8)) else { return [] }
        return members.map(\.key)
    }

    @Test func `each command of the page works`() throws {
        let stage = try Stage()
        let settings = try stage.write(try Self.settings)
        let commands = Self.blocks("sh").flatMap { $0.split(separator: "\n").map(String.init) }.filter {
            $0.hasPrefix("gaplessd ")
        }
        #expect(commands.count >= 10)
        for command in commands {
            let words = Self.words(command.replacing("settings.json", with: settings)).dropFirst()
            let call = try Call(Array(words))
            #expect(call.status == 0, "\(command): \(call.errors)\(call.output)")
        }
    }

    /// The words of a command, of which some are in single quotes.
    private static func words(_ command: String) -> [String] {
        var (words, word, isQuoted) = ([String](), "", false)
        for character in command {
            if character == "'" {
                isQuoted.toggle()
            } else if character == " " && !isQuoted {
                words.append(word)
                word = ""
            } else {
                word.append(character)
            }
        }
        return words + [word]
    }
}
