import Testing

@testable import PushPool

@Suite("Dates of HTTP")
struct HTTPDateTests {
    @Test(arguments: [
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
        ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800), ("Wed, 21 Oct 2099 07:28:00 GMT", 4_096_250_880),
    ])
    func `a date is its seconds since 1970`(text: String, seconds: Int) {
        #expect(HTTPDate.unixSeconds(text) == seconds)
    }

    @Test(arguments: [
        "", "120", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Now 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
    ])
    func `anything else is none`(text: String) {
        #expect(HTTPDate.unixSeconds(text) == nil)
    }
}
