import Platform
import Testing

@Suite("Dates in UTC")
struct UTCDateTests {
    @Test(
        arguments: [
            (0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_132_800, "2026-11-20"), (-1, "1969-12-31"),
        ] as [(Int64, String)])
    func `the day of Unix seconds`(seconds: Int64, day: String) {
        #expect(UTCDate.day(seconds) == day)
    }

    @Test(
        arguments: [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799), ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Wed, 21 Oct 2099 07:28:00 GMT", 4_096_250_880),
        ] as [(String, Int64)])
    func `the Unix seconds of an HTTP date, and the date of Unix seconds`(text: String, seconds: Int64) {
        #expect(UTCDate.http(seconds) == text)
        #expect(UTCDate.unixSeconds(http: text) == seconds)
    }

    @Test(arguments: [
        "", "120", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Now 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 30 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT+1",
    ])
    func `another text is not an HTTP date`(text: String) {
        #expect(UTCDate.unixSeconds(http: text) == nil)
    }
}
