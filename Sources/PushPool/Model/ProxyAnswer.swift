internal import JSONBytes

/// What a proxy answers to CONNECT, byte by byte as it comes.
struct ProxyAnswer {
    enum Verdict: Equatable {
        /// The way is open: what comes next is the server's.
        case open
        case refused(ProxyError)
    }

    /// A proxy may explain itself, but not for ever.
    static let mostBytes = 16 << 10

    private var head: [UInt8] = []

    /// Takes in one byte; the verdict once the head of the answer is complete.
    ///
    /// Byte by byte, because the first byte behind the head belongs to TLS.
    mutating func receive(_ byte: UInt8) -> Verdict? {
        head.append(byte)
        if head.count > Self.mostBytes { return .refused(.nonsense) }
        guard byte == UInt8(ascii: "\n") else { return nil }
        guard head.suffix(4).elementsEqual("\r\n\r\n".utf8) || head.suffix(2).elementsEqual("\n\n".utf8) else { return nil }
        return verdict
    }

    private var verdict: Verdict {
        let line = String(decoding: head.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        let words = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), words[1].utf8.count == 3, let status = Int(words[1]) else {
            return .refused(.nonsense)
        }
        switch status {
        case 200..<300: return .open
        case 407: return .refused(.credentials)
        default: return .refused(.status(status, words.count > 2 ? String(words[2].prefix(100)) : ""))
        }
    }
}
