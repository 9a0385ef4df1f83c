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

    private static let state = #"{"aps":{"event":"update","content-state":{}}}"#

    @Test(arguments: [
        (state, "liveactivity", ".push-type.liveactivity"),
        (#"{"aps":{"event":"start","attributes":{},"alert":"x"}}"#, "liveactivity", ".push-type.liveactivity"),
        (#"{"mdm":"magic"}"#, "mdm", ""), (#"{"aps":{"content-available":1}}"#, "background", ""),
        (#"{"aps":{"event":"update"}}"#, "alert", ""), (#"{"aps":{"content-state":{}}}"#, "alert", ""),
        (#"{"event":"update","content-state":{}}"#, "alert", ""), (#"{"aps":{"mdm":"x"}}"#, "alert", ""),
    ])
    func `the push type and the suffix follow the payload`(payload: String, pushType: String, suffix: String) throws {
        for (members, bundleID) in [("", app), (#""topic":"com.own","#, "com.own")] {
            var reader = JobReader(retryLimit: 3, appNames: [])
            let job = try reader.read(Array(#"{"token":"ab",\#(members)"data":\#(payload)}"#.utf8))
            #expect(job.pushType == pushType && job.topic(ofApp: app) == bundleID + suffix)
            #expect(
                job.usesTopicOfApp == (members.isEmpty && suffix.isEmpty) && job.priority == (pushType == "background" ? 5 : 10))
        }
    }

    @Test func `a Live Activity and MDM replace the suffix of the app's topic, and the job's own topic decides`() throws {
        var reader = JobReader(retryLimit: 3, appNames: [], suffixedTopics: [nil: PushTopic("com.voice.voip")])
        func job(_ members: String, _ data: String) throws -> Job {
            try reader.read(Array(#"{"token":"ab",\#(members)"data":\#(data)}"#.utf8))
        }
        let update = try job("", Self.state)
        #expect(update.pushType == "liveactivity" && update.topic(ofApp: "com.voice.voip") == "com.voice.push-type.liveactivity")
        #expect(try job("", #"{"mdm":"m"}"#).topic(ofApp: "com.voice.voip") == "com.voice")
        #expect(try job("", #"{"aps":{"content-available":1}}"#).pushType == "voip")
        #expect(try job(#""topic":"com.own.voip","#, Self.state).pushType == "voip")
        #expect(try job(#""push_type":"alert","#, Self.state).pushType == "alert")
    }

    @Test func `content-changed needs a push type, because widgets and controls share it`() throws {
        var reader = JobReader(retryLimit: 3, appNames: [], suffixedTopics: [nil: PushTopic("com.w.push-type.widgets")])
        let data = #""data":{"aps":{"content-changed":true}}}"#
        #expect(try reader.read(Array((#"{"token":"ab","# + data).utf8)).pushType == "widgets")
        #expect(try reader.read(Array((#"{"token":"ab","topic":"a.push-type.controls","# + data).utf8)).pushType == "controls")
        var text = ""
        reader = JobReader(retryLimit: 3, appNames: [], suffixedTopics: [nil: PushTopic("com.w.voip")])
        do { _ = try reader.read(Array((#"{"token":"ab","# + data).utf8)) } catch { text = error.description }
        #expect(text == "push_type is missing: data has content-changed, so it is widgets or controls at byte 29")
        #expect(try reader.read(Array((#"{"token":"ab","push_type":"widgets","# + data).utf8)).pushType == "widgets")
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
        let routes = AppRoutes([
            .init(topic: "com.top"), .init(name: "own", topic: "com.own"), .init(name: "calls", topic: "com.own.voip"),
        ])
        #expect(routes.app(name: nil, topic: "com.own.push-type.widgets") == 1)
        #expect(routes.app(name: nil, topic: "com.own.voip") == 2)
        #expect(routes.app(name: nil, topic: "com.other.voip") == 0)
    }
}
