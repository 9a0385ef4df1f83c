import Testing

@testable import gaplessd

@Suite("What is valid in a job and rarely meant")
struct PayloadMistakesTests {
    private func hints(_ data: String, _ members: String = "") throws -> [String] {
        var reader = JobReader(retryLimit: 3, appNames: [])
        return try reader.read(Array(#"{"token":"ab","data":\#(data)\#(members)}"#.utf8)).hints
    }

    @Test(arguments: [
        (#"{"aps":{"content_available":1}}"#, "content_available is not a key of aps; it is content-available"),
        (#"{"aps":{"alert":"x","mutable_content":1}}"#, "mutable_content is not a key of aps; it is mutable-content"),
        (
            #"{"aps":{"content-available":"1"}}"#,
            "content-available is not the number 1, so that the push is not a background push"
        ),
        (
            #"{"aps":{"content-available":1.0}}"#,
            "content-available is not the number 1, so that the push is not a background push"
        ),
        (
            #"{"aps":{"content-available":1,"sound":""}}"#,
            "sound is empty: leave it out of a background push, because with it the push is an alert"
        ),
        (
            #"{"aps":{"content-available":1,"alert":{}}}"#,
            "alert is empty: leave it out of a background push, because with it the push is an alert"
        ),
        (#"{"aps":{"alert":{}}}"#, "alert is empty, so that the push shows no text"),
        (#"{"alert":"x"}"#, "alert belongs in aps"), (#"{"badge":1,"sound":"s"}"#, "badge and sound: these belong in aps"),
    ])
    func `is named`(data: String, hint: String) throws {
        #expect(try hints(data) == [hint])
    }

    @Test(arguments: [
        #"{"aps":{"alert":"x","sound":""}}"#, #"{"aps":{"content-available":1}}"#,
        #"{"aps":{"content-available":0,"alert":"x"}}"#,
        "{}", #"{"my_key":1,"aps":{"alert":"x","my_key":2}}"#,
    ])
    func `other payloads have no hint`(data: String) throws {
        #expect(try hints(data) == [])
    }

    @Test func `times in milliseconds and dates as a duration are named as well`() throws {
        #expect(try hints("{}", #","expires_at":1893456000000"#).count == 1)
        #expect(try hints("{}", #","not_before":1893456000000"#).count == 1)
        #expect(try hints("{}", #","expiry":1893456000"#).count == 1)
        #expect(try hints("{}", #","expiry":3600.5,"expires_at":1893456000.5"#).isEmpty)
    }
}
