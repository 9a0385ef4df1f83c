internal import JSONBytes

/// Reads the proxy's response to CONNECT byte by byte.
struct ProxyAnswer {
    enum Verdict: Equatable {
        /// The tunnel is open: all further bytes come from the server.
        case open
        case refused(ProxyError)
    }

    /// The largest response in bytes.
    static let mostBytes = 16 << 10

    private var head: [UInt8] = []

    /// Reads one byte. Returns the result once the head of the response is complete.
    ///
    /// It reads single bytes because the first byte after the head belongs to TLS.
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
