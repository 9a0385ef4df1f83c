import PushPool
import Testing

@testable import gaplessd

@Suite("Settings of rules and matches")
struct SettingsEntriesTests {
    private let folder = SettingsFolder()

    @Test func `rules and matches are read in their order`() throws {
        let read = try folder.read(
            settings(
                #""retry_rules": [{"status": 503, "action": "retry", "delays": [0.5, 2]}, "#
                    + #"{"reason": "Forbidden", "action": "hold"}, "#
                    + #"{"status": 400, "reason": "BadTopic", "action": "dead", "_why": "a comment"}], "#
                    + #""filter_match": [{"path": "aps.category", "equals": ["ad", 1, true, null]}]"#)
        ).settings
        #expect(
            read.retryRules == [
                ResponseRule(status: 503, reason: nil, action: .retry(delays: [.seconds(0.5), .seconds(2)])),
                ResponseRule(status: nil, reason: "Forbidden", action: .hold),
                ResponseRule(status: 400, reason: "BadTopic", action: .dead),
            ])
        #expect(
            read.matches == [
                PayloadMatch(path: "aps.category", values: [.string(Array("ad".utf8)), .integer(1), .bool(true), .null])
            ])
    }

    @Test func `each fault has a line with the value`() {
        for (member, faults) in [
            (#""retry_rules": 1"#, ["retry_rules: invalid value 1; expected an array of objects with retry rules, at most 1000"]),
            (#""retry_rules": [1]"#, ["retry_rules[0]: invalid value 1; expected an object"]),
            (
                #""retry_rules": [{"status": 200, "action": "dead"}, {"status": 503, "action": "burn"}]"#,
                [
                    "retry_rules[0].status: 200 is out of range; expected an integer from 300 to 599",
                    #"retry_rules[1].action: invalid value "burn"; expected "retry", "dead" or "hold""#,
                ]
            ),
            (
                #""retry_rules": [{"status": 1e99, "reason": "", "delays": []}]"#,
                [
                    "retry_rules[0].status: 1e99 is out of range; expected an integer from 300 to 599",
                    #"retry_rules[0].reason: invalid value ""; expected a non-empty string"#,
                    "retry_rules[0].delays: invalid value []; expected an array of at least one number of seconds, "
                        + "each from 0 to 2592000",
                    #"retry_rules[0].action: required key is missing; expected "retry", "dead" or "hold""#,
                ]
            ),
            (
                #""retry_rules": [{"action": "dead"}]"#,
                ["retry_rules[0]: matches every response; expected status, reason, or both"]
            ),
            (
                #""retry_rules": [{"status": 503, "action": "dead", "delays": [1]}]"#,
                [#"retry_rules[0].delays: has no effect with "dead"; expected no delays, or the action "retry""#]
            ),
            (
                #""retry_rules": [{"status": 503, "status": 500, "action": "dead", "when": 1}]"#,
                [
                    "retry_rules[0].status: duplicate key; expected each key at most once",
                    "retry_rules[0].when: unknown key; expected status, reason, action, delays",
                ]
            ),
            (
                #""filter_match": [{"path": "a..b", "equals": []}, {"equals": [{}]}, {"path": "a"}]"#,
                [
                    #"filter_match[0].path: invalid value "a..b"; expected keys with dots between them, such as "aps.category""#,
                    "filter_match[0].equals: invalid value []; "
                        + "expected an array of at least one string, number, true, false or null",
                    "filter_match[1].path: required key is missing; expected path and equals",
                    "filter_match[1].equals: invalid value [{}]; "
                        + "expected an array of at least one string, number, true, false or null",
                    "filter_match[2].equals: required key is missing; expected path and equals",
                ]
            ),
        ] { #expect(folder.faults(settings(member)) == faults) }
    }

    @Test func `max_rate of an app is its own, and that of the top level belongs to all`() throws {
        let app = smallestAPNS + #", "max_rate": 5"#
        let read = try folder.read(settings(#""max_rate": 100, "apps": {"a": {\#(app)}, "b": {\#(smallestAPNS)}}"#)).settings
        #expect(read.limits.pushesPerSecond == 100)
        #expect(read.apps.map(\.ownLimit) == [nil, 5, nil])
        #expect(
            folder.faults(settings(#""apps": {"a": {\#(smallestAPNS), "max_rate": -1}}"#)) == [
                "apps.a.max_rate: -1 is out of range; expected a number from 0.001 to 1000000000, or 0 for no limit"
            ])
    }
}
