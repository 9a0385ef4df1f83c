import PushPool
import Testing

@testable import gaplessd

private let app = "com.example.app"

/// Reads a job with these further members, for apps of which `voice` has the topic of a push type.
private func job(_ members: String) throws(JobError) -> Job {
    let topics: [(app: String?, topic: String?)] = [(nil, app), ("voice", "com.example.voice.voip"), ("none", nil)]
    var reader = JobReader(retryLimit: 3, appNames: ["voice", "none"], suffixedTopics: PushTopic.suffixed(topics))
    return try reader.read(Array(#"{"token":"ab",\#(members),"data":{"aps":{"alert":"x"}}}"#.utf8))
}

@Suite("The topic and the push type of a job")
struct PushTopicTests {
    private static let suffixes = [
        ("alert", ""), ("background", ""), ("mdm", ""), ("voip", ".voip"), ("complication", ".complication"),
        ("fileprovider", ".pushkit.fileprovider"), ("location", ".location-query"),
        ("liveactivity", ".push-type.liveactivity"), ("pushtotalk", ".voip-ptt"), ("widgets", ".push-type.widgets"),
        ("controls", ".push-type.controls"),
    ]

    @Test(arguments: suffixes)
    func `the suffix follows the push type`(pushType: String, suffix: String) throws {
        let derived = try job(#""push_type":"\#(pushType)""#)
        #expect(derived.topic == nil && derived.topic(ofApp: app) == app + suffix && derived.topic(ofApp: nil) == nil)
        #expect(derived.usesTopicOfApp == suffix.isEmpty)
        let named = try job(#""push_type":"\#(pushType)","topic":"com.own""#)
        #expect(named.topic(ofApp: app) == "com.own" + suffix && !named.usesTopicOfApp)
        #expect(try job(#""push_type":"\#(pushType)","topic":"com.own\#(suffix)""#).topic == "com.own" + suffix)
    }

    @Test(arguments: suffixes.filter { !$0.1.isEmpty })
    func `the push type follows a topic with a suffix`(pushType: String, suffix: String) throws {
        let job = try job(#""topic":"com.own\#(suffix)""#)
        #expect(job.pushType == pushType && job.topic == "com.own" + suffix)
        #expect(PushTopic("com.own" + suffix).bundleID == "com.own")
    }

    @Test func `the topic of an app with a suffix implies the push type of its jobs`() throws {
        let voip = "com.example.voice.voip"
        let implied = try job(#""app":"voice""#)
        #expect(implied.pushType == "voip" && implied.topic(ofApp: voip) == voip && implied.usesTopicOfApp)
        let other = try job(#""app":"voice","push_type":"alert""#)
        #expect(other.topic(ofApp: voip) == "com.example.voice" && !other.usesTopicOfApp)
        #expect(try job(#""app":"none""#).pushType == "alert")
    }

    @Test(arguments: suffixes.filter { !$0.1.isEmpty })
    func `a push type whose suffix the topic of the app has already leaves that topic unchanged`(
        pushType: String, suffix: String
    ) throws {
        var reader = JobReader(retryLimit: 3, appNames: [], suffixedTopics: [nil: PushTopic(app + suffix)])
        let job = try reader.read(Array(#"{"token":"ab","push_type":"\#(pushType)","data":{"aps":{}}}"#.utf8))
        #expect(job.topic(ofApp: app + suffix) == app + suffix && job.usesTopicOfApp)
        let broadcast = try reader.read(Array(#"{"channel":"ab==","push_type":"\#(pushType)","data":{"aps":{}}}"#.utf8))
        #expect(broadcast.topic(ofApp: app + suffix) == app && !broadcast.usesTopicOfApp)
    }

    @Test func `an unknown push type goes with any topic`() throws {
        #expect(try job(#""push_type":"new","topic":"com.own.voip""#).topic == "com.own.voip")
        #expect(try job(#""push_type":"new""#).topic(ofApp: app) == app)
    }

    @Test(arguments: [
        (
            #""topic":"com.own.voip","push_type":"alert""#,
            "push_type alert does not go with the topic com.own.voip at byte 49"
        ),
        (
            #""push_type":"pushtotalk","topic":"com.own.voip""#,
            "push_type pushtotalk does not go with the topic com.own.voip at byte 26"
        ),
        (#""push_type":"background","priority":10"#, "priority 10 is not allowed for the push type background at byte 50"),
    ])
    func `a pair that Apple forbids is an error`(members: String, expected: String) {
        var text = ""
        do { _ = try job(members) } catch { text = error.description }
        #expect(text == expected)
    }

    @Test func `a call and a broadcast are not stored by default`() throws {
        #expect(try job(#""push_type":"voip""#).expiry == .after(0))
        #expect(try job(#""topic":"com.own.voip-ptt""#).expiry == .after(0))
        #expect(try job(#""push_type":"voip","expiry":30"#).expiry == .after(30))
        #expect(try job(#""push_type":"liveactivity""#).expiry == .after(7200))
    }

    @Test func `a topic with a suffix selects the app of its bundle id`() {
        let routes = AppRoutes(
            names: [nil, "own", "calls"], topics: ["com.top", "com.own", "com.own.voip"], certified: [[], [], []])
        #expect(routes.app(name: nil, topic: "com.own.push-type.widgets") == 1)
        #expect(routes.app(name: nil, topic: "com.own.voip") == 2)
        #expect(routes.app(name: nil, topic: "com.other.voip") == 0)
    }
}
