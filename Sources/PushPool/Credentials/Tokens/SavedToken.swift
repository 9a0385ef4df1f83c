/// The content of a token file: the token and its history for the next process.
struct SavedToken: Equatable {
    var bytes: [UInt8]
    /// Unix seconds, like all times here: monotonic clocks of two processes cannot be compared across a reboot.
    var issuedAt: Int64
    /// The last time at which a token was replaced within 20 minutes.
    var hurriedAt: Int64?
    /// The time until which APNs accepts no other token.
    var keptUntil: Int64?

    private static let title = "gaplessd provider token 1"

    init(bytes: [UInt8], issuedAt: Int64, hurriedAt: Int64? = nil, keptUntil: Int64? = nil) {
        self.bytes = bytes
        self.issuedAt = issuedAt
        self.hurriedAt = hurriedAt
        self.keptUntil = keptUntil
    }

    /// Returns `nil` for any other text, such as a partial file or another version's.
    init?(text: [UInt8]) {
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count == 6, lines[0] == Self.title, lines[5].isEmpty else { return nil }
        var values: [Substring] = []
        for (line, name) in zip(lines[1...4], ["issued ", "hurried ", "kept ", "token "]) {
            guard line.hasPrefix(name) else { return nil }
            values.append(line.dropFirst(name.count))
        }
        guard let issuedAt = Int64(values[0]), let hurriedAt = Int64(values[1]), let keptUntil = Int64(values[2]),
            [issuedAt, hurriedAt, keptUntil].allSatisfy({ (0...253_402_300_799).contains($0) })
        else { return nil }
        self.init(
            bytes: Array(values[3].utf8), issuedAt: issuedAt, hurriedAt: hurriedAt == 0 ? nil : hurriedAt,
            keptUntil: keptUntil == 0 ? nil : keptUntil)
    }

    var text: [UInt8] {
        Array("\(Self.title)\nissued \(issuedAt)\nhurried \(hurriedAt ?? 0)\nkept \(keptUntil ?? 0)\ntoken ".utf8) + bytes
            + [UInt8(ascii: "\n")]
    }
}
