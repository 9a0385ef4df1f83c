import PushPool

extension PoolAdvice {
    /// `2 sessions at 100 ms carry about 3,400 pushes/s of 210 bytes; pool_size 8 would carry 14,000.`
    var logText: String {
        let milliseconds = Int((roundTrip / .milliseconds(1)).rounded())
        return "\(sessions.counted("session")) at \(milliseconds) ms carry about \(pushesPerSecond.rounded.commas) pushes/s "
            + "of \(payload) bytes; \(isMaximum ? "pool_max_size" : "pool_size") \(suggestion) would carry "
            + "\(suggestedPushesPerSecond.rounded.commas)."
    }
}

extension Int {
    /// The number with two significant digits.
    var rounded: Int {
        var unit = 1
        while self / unit >= 100 { unit *= 10 }
        return (self + unit / 2) / unit * unit
    }

    /// The digits of a positive number in groups of three.
    var commas: String {
        let digits = String(self)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0 && (digits.count - index) % 3 == 0 { text += "," }
            text.append(digit)
        }
        return text
    }
}
