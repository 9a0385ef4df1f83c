import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The channels behind the names of jobs")
struct ChannelNamesTests {
    private let name = ChannelName(app: "", name: "match-1")
    private let start = Instant.now
    private var names = ChannelNames()

    private mutating func resolve(after seconds: Double = 0) -> ChannelNames.Resolution {
        names.resolve(name, now: start + .seconds(seconds))
    }

    private mutating func answer(_ answer: ChannelKeeper.Answer, after seconds: Double = 0) {
        names.answered(answer, now: start + .seconds(seconds))
    }

    @Test mutating func `a name is asked for once, and its jobs wait longer and longer`() {
        #expect(resolve() == .wait(.milliseconds(100)))
        #expect(names.takeQuestions() == [name])
        #expect(resolve(after: 0.05) == .wait(.milliseconds(100)) && resolve(after: 2) == .wait(.seconds(2)))
        #expect(resolve(after: 30) == .wait(.seconds(5)) && names.takeQuestions() == [])
        #expect(resolve(after: 61) == .wait(.seconds(5)) && names.takeQuestions() == [name], "without an answer")
    }

    @Test mutating func `a channel that is found is used, and looked up again from time to time`() {
        _ = resolve()
        answer(.found(name, id: "AA==", storage: .latest))
        _ = names.takeQuestions()
        #expect(resolve(after: 29) == .channel(id: "AA==", storage: .latest) && names.takeQuestions() == [])
        #expect(resolve(after: 31) == .channel(id: "AA==", storage: .latest) && names.takeQuestions() == [name])
        #expect(resolve(after: 32) == .channel(id: "AA==", storage: .latest) && names.takeQuestions() == [])
        answer(.found(name, id: "BB==", storage: .none), after: 33)
        #expect(resolve(after: 34) == .channel(id: "BB==", storage: .none))
    }

    @Test mutating func `a name whose creation failed waits and is then asked for again`() {
        _ = resolve()
        _ = names.takeQuestions()
        answer(.failed(name, for: .seconds(60)))
        #expect(resolve(after: 10) == .wait(.seconds(50)) && names.takeQuestions() == [])
        #expect(resolve(after: 60) == .wait(.milliseconds(100)) && names.takeQuestions() == [name])
    }

    @Test mutating func `a missing name is a bad job for a second`() {
        _ = resolve()
        _ = names.takeQuestions()
        answer(.missing(name))
        #expect(resolve(after: 0.9) == .missing && names.takeQuestions() == [])
        #expect(resolve(after: 1) == .wait(.milliseconds(100)) && names.takeQuestions() == [name])
    }

    @Test mutating func `an id that APNs does not know is final only if the record still has it`() {
        _ = resolve()
        answer(.found(name, id: "AA==", storage: .none))
        _ = names.takeQuestions()
        let first = names.doubts(name, id: "AA==", now: start)
        #expect(first && names.takeQuestions() == [name])
        // Jobs that were in flight together.
        let second = names.doubts(name, id: "AA==", now: start)
        #expect(second && names.takeQuestions() == [])
        answer(.found(name, id: "AA==", storage: .none))
        let third = names.doubts(name, id: "AA==", now: start)
        #expect(!third, "the record has the same id")
        _ = resolve(after: 40)
        answer(.found(name, id: "BB==", storage: .none), after: 41)
        let other = names.doubts(name, id: "AA==", now: start + .seconds(42))
        #expect(other, "the channel has another id meanwhile")
        #expect(resolve(after: 43) == .channel(id: "BB==", storage: .none))
    }

    @Test mutating func `apps have their own names, and the table has a bound`() {
        let other = ChannelName(app: "beta", name: "match-1")
        _ = resolve()
        answer(.found(name, id: "AA==", storage: .none))
        #expect(names.resolve(other, now: start) == .wait(.milliseconds(100)))
        for number in 0..<ChannelNames.most { _ = names.resolve(ChannelName(app: "", name: "\(number)"), now: start) }
        #expect(resolve() == .wait(.milliseconds(100)), "forgotten, and asked again")
    }
}

@Suite("The record of a channel")
struct ChannelRecordTests {
    private let name = ChannelName(app: "", name: "match-1")

    @Test func `has a plain form and is read back`() throws {
        let record = ChannelRecord(name, id: "AA==", storage: .latest, environment: "production", created: 7)
        #expect(
            String(decoding: record.bytes, as: UTF8.self)
                == #"{"id": "AA==", "storage": "latest", "environment": "production", "created": 7, "ended": null, "#
                + #""app": "", "name": "match-1"}"#
        )
        #expect(ChannelRecord(record.bytes) == record)
        #expect(ChannelRecord(Array("{}".utf8)) == nil && ChannelRecord(Array("AA==".utf8)) == nil)
    }

    @Test func `of another app moves the name to a field of its own`() throws {
        let other = ChannelRecord(
            ChannelName(app: "beta", name: "match-1"), id: "BB==", storage: .none, environment: "sandbox", created: 1)
        let mine = ChannelRecord(name, id: "AA==", storage: .none, environment: "sandbox", created: 2)
        let free = ChannelEntry(name, [nil, nil]).change(to: mine)
        #expect(free.field == "match-1" && free.old == nil && free.creation == "/match-1")
        let taken = ChannelEntry(name, [other.bytes, nil]).change(to: mine)
        #expect(taken.field == "/match-1" && taken.old == nil)
        #expect(ChannelEntry(name, [other.bytes, nil]).record == nil)
        #expect(ChannelEntry(name, [other.bytes, mine.bytes]).record == mine)
        #expect(ChannelEntry(name, [mine.bytes, nil]).record(in: "production") == nil)
        let replaced = ChannelEntry(name, [mine.bytes, nil]).change(to: nil)
        #expect(replaced.field == "match-1" && replaced.old == mine.bytes && replaced.new == nil)
    }
}

@Suite("A pattern of channels")
struct ChannelRuleTests {
    @Test(arguments: [
        ("match-*", "match-1", true), ("match-*", "match-", true), ("match-*", "rematch-1", false), ("*", "", true),
        ("*-final", "cup-final", true), ("*-final", "cup-finals", false), ("a*b*c", "a-b-c", true), ("a*b*c", "a-c", false),
        ("a*b*c", "abbc", true), ("ab*ba", "aba", false), ("one", "one", true), ("one", "ones", false), ("a**b", "ab", true),
    ])
    func `matches whole names`(pattern: String, name: String, matches: Bool) {
        #expect(ChannelRule(pattern: pattern).matches(name) == matches)
    }

    @Test func `the first one that matches counts`() {
        var settings = Settings()
        settings.channels = [ChannelRule(pattern: "a-*", storage: .latest), ChannelRule(pattern: "*", creates: false)]
        #expect(settings.channelRule(of: "a-1")?.storage == .latest && settings.channelRule(of: "b")?.creates == false)
    }
}
