/// A date as HTTP writes it now: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7). The two older forms, which no server may send, are
/// not read.
enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Seconds since 1970; `nil` for anything else than such a date. The day of the week is not looked at.
    static func unixSeconds(_ text: String) -> Int? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[0].count == 4, words[0].last == ",", words[5] == "GMT",
            let day = number(words[1], digits: 2),
            let month = months.firstIndex(of: String(words[2])), let year = number(words[3], digits: 4), (1...31).contains(day)
        else { return nil }
        let clock = words[4].split(separator: ":", omittingEmptySubsequences: false).map { number($0, digits: 2) }
        guard clock.count == 3, let hour = clock[0], let minute = clock[1], let second = clock[2], hour < 24, minute < 60,
            second <= 60
        else { return nil }
        return ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
    }

    private static func number(_ text: Substring, digits: Int) -> Int? {
        text.utf8.count == digits && text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
    }

    /// Days since 1970 in the calendar of today. The year is taken to begin in March, so that February's end is the year's.
    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let shifted = (month + 10) % 12
        let years = month < 2 ? year - 1 : year
        let ofYear = (153 * shifted + 2) / 5 + day - 1
        return 365 * years + years / 4 - years / 100 + years / 400 + ofYear - 719_468
    }
}
