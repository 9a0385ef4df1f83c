internal import Glibc
internal import JSONBytes
import Platform

/// A provider token: a JWT that identifies the team ("Establishing a token-based connection to APNs").
struct ProviderToken: Sendable, Equatable {
    /// `header.claims.signature` in ASCII. Secret while APNs accepts it: for an hour.
    let bytes: [UInt8]
    /// Its `iat`, Unix seconds.
    let issuedAt: Int64
    /// Counts the tokens of one source, from 1.
    let generation: UInt64
    /// By the monotonic clock of this process.
    let mintedAt: Instant
}

extension ProviderToken {
    /// Signs a new token with ES256.
    ///
    /// - Parameter issuedAt: Unix seconds.
    init?(signedBy key: SigningKey, issuedAt: Int64, generation: UInt64, mintedAt: Instant = .now) {
        let signed = ProviderToken.signedPart(key, issuedAt: issuedAt)
        guard let signature = key.sign(signed) else { return nil }
        self.init(
            bytes: signed + [UInt8(ascii: ".")] + Base64.encode(signature, as: .url), issuedAt: issuedAt,
            generation: generation, mintedAt: mintedAt)
    }

    /// Returns `header.claims`, which the signature covers.
    static func signedPart(_ key: SigningKey, issuedAt: Int64) -> [UInt8] {
        let header = Base64.encode(Array(#"{"alg":"ES256","kid":"\#(key.keyID)"}"#.utf8), as: .url)
        let claims = Base64.encode(Array(#"{"iss":"\#(key.teamID)","iat":\#(issuedAt)}"#.utf8), as: .url)
        return header + [UInt8(ascii: ".")] + claims
    }
}

extension ProviderToken: CustomStringConvertible, CustomReflectable {
    var description: String { "provider token \(generation)" }
    var customMirror: Mirror { Mirror(self, children: []) }
}

/// The content of a token file: the token and its history for the next process.
struct SavedToken: Equatable {
    var bytes: [UInt8]
    /// Unix seconds, like all times here: monotonic clocks of two processes cannot be compared across a reboot.
    var issuedAt: Int64
    /// The last time at which a token was replaced within 20 minutes.
    var hurriedAt: Int64?
    /// The time until which APNs accepts no other token.
    var keptUntil: Int64?
}

extension SavedToken {
    private static let title = "gaplessd provider token 1"

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

/// The present time by the monotonic clock and by the clock that APNs reads.
struct Moment {
    var now = Instant.now
    /// Unix seconds.
    var unixTime = Int64(time(nil))
}
