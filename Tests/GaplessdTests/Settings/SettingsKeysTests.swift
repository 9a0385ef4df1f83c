import RedisQueue
import Testing

@testable import gaplessd

@Suite("Settings that lead astray: a password where none belongs, a host with a port, one key for two ends")
struct SettingsKeysTests {
    private let folder = SettingsFolder()

    @Test(arguments: [
        ("redis_netaddress", #""redis://:SECRET@h:1""#), ("redis_host", #""user:SECRET @h""#),
        ("redis_host", #""user:SECRET@h""#),
        ("redis_host", #""redis://:SECRET""#), ("apns_server", #""https://SECRET""#), ("metrics_listen", #""u:SECRET@h:1""#),
        ("redis_sentinels", #"["u:SECRET@h:1"]"#), ("pool_size", #""SECRET@h""#), ("apns_proxy", #""http://u:SECRET@h""#),
    ])
    func `What may hold a password is not repeated`(key: String, value: String) {
        let apns = key == "apns_server" ? smallestAPNS.replacing(#""apns_server": "sandbox", "#, with: "") : smallestAPNS
        let faults = folder.faults(settings("\"\(key)\": \(value)", apns: apns))
        #expect(faults.contains { $0.hasPrefix("\(key): is a") }, "\(faults)")
        #expect(!faults.joined().contains("SECRET"), "\(faults)")
    }

    @Test(arguments: [
        ("[::1]", "::1"), ("::1", "::1"), ("fe80::1%eth0", "fe80::1%eth0"), ("redis.example.com", "redis.example.com"),
    ])
    func `A host may be an IPv6 address, with brackets or without`(host: String, address: String) throws {
        let read = try folder.read(settings("\"redis_host\": \"\(host)\"")).settings
        #expect(read.redis.server == .tcp(host: address, port: 6379))
    }

    @Test(arguments: [
        (
            #""redis_queue_key": "w1", "redis_results_key": "w1""#,
            "redis_results_key: is \"w1\", as a list of redis_queue_key is; a key of its own would be right"
        ),
        (
            #""redis_queue_key": ["w1", "w2"], "redis_results_key": "{w2}:gapless:dead""#,
            "redis_results_key: is \"{w2}:gapless:dead\", a key that gaplessd keeps beside the list \"w2\"; a key of its own would be right"
        ),
        (
            #""redis_queue_key": ["{w1}:gapless:dead", "w1"]"#,
            "redis_queue_key: has \"{w1}:gapless:dead\", a key that gaplessd keeps beside the list \"w1\"; a list of another name would be right"
        ),
        (
            #""redis_queue_key": ["w1", "{w1}"]"#,
            "redis_queue_key: has \"w1\" and \"{w1}\", which would have the same keys beside them; lists whose names differ in more than {} would be right"
        ),
    ])
    func `No key of Redis may serve two ends`(members: String, line: String) {
        #expect(folder.faults("{\(smallestAPNS), \(members)}") == [line])
    }

    @Test func `A variable that is empty is not called unset`() {
        let members = #""redis_socket_path": "${EMPTY}/r", "filter_words_path": "${NOPE}/w""#
        #expect(
            folder.faults(settings(members), environment: ["EMPTY": ""]) == [
                "redis_socket_path: names ${EMPTY}, which is empty in the environment; a variable that is not empty would be right",
                "filter_words_path: names ${NOPE}, which is not set in the environment; a variable that is set would be right",
            ])
    }
}
