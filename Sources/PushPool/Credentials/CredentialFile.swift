internal import JSONBytes

/// The content of a credential file in standard PEM: what is left after editors, shells and secret stores have changed it.
///
/// Accepts each change that leaves no doubt about the content: line breaks as `\n`, as blanks or as CR only, indented and joined
/// blocks, quotes, base64 of the whole file, and DER. Otherwise it names the fault, without any part of the content.
package struct CredentialFile {
    /// The kind of one block.
    package enum Content: Sendable, Equatable {
        case certificate, privateKey, publicKey, request, pkcs7, pkcs12, sshKey, other

        /// With its article.
        var words: String {
            switch self {
            case .certificate: "a certificate"
            case .privateKey: "a private key"
            case .publicKey: "a public key"
            case .request: "a certificate signing request"
            case .pkcs7: "a PKCS#7 bundle"
            case .pkcs12: "a PKCS#12 file"
            case .sshKey: "an OpenSSH key"
            case .other: "another kind of data"
            }
        }

        fileprivate init(label: Substring) {
            switch label {
            case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE": self = .certificate
            case "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST": self = .request
            case "PKCS7", "CMS": self = .pkcs7
            case "OPENSSH PRIVATE KEY": self = .sshKey
            case _ where label.hasSuffix("PRIVATE KEY"): self = .privateKey
            case _ where label.hasSuffix("PUBLIC KEY"): self = .publicKey
            default: self = .other
            }
        }
    }

    /// The blocks in standard PEM; empty if there are none.
    package private(set) var pem: [UInt8] = []
    /// Of each block, and of a file without one.
    package private(set) var contents: [Content] = []
    /// The DER of a PKCS#12 file.
    private(set) var pkcs12: [UInt8]?
    /// The first thing that is wrong with the text; `nil` if a block could be read, or if it resembles no credential.
    private var damage: String?

    package init(_ bytes: [UInt8]) { self.init(bytes, isDecoded: false) }

    /// Whether the file contains this and nothing that is used beside it.
    package func isOnly(_ content: Content) -> Bool {
        contents.contains(content)
            && !contents.contains { $0 != content && ($0 == .certificate || $0 == .privateKey || $0 == .pkcs12) }
    }

    /// The sentence about a file in which something is missing.
    ///
    /// - Parameter expected: the words after "expected".
    func lack(of wanted: Content, expected: String) -> String {
        let name = wanted.words.dropFirst("a ".count)
        let found =
            contents.contains(wanted)
            ? ": its content is damaged, or of an unknown kind"
            : damage.map { ": \($0)" } ?? contents.first.map { ", but \($0.words)" } ?? ""
        return "no \(name) found\(found); expected \(expected)"
    }

    /// - Parameter isDecoded: whether the bytes were base64. Only one such layer is removed.
    private init(_ bytes: [UInt8], isDecoded: Bool) {
        if let content = DERContent(bytes) {
            contents = [content.content]
            if let label = content.label { append(bytes, label: label, headers: []) }
            if content == .pkcs12 { pkcs12 = bytes }
            return
        }
        let text = Self.withLineBreaks(bytes)
        if text.firstRange(of: "-----BEGIN ") != nil {
            readBlocks(text)
            return
        }
        let bare = text.filter { !$0.isWhitespace && !Self.quotes.contains($0) }
        if !isDecoded, bare.utf8.count >= Self.leastBase64, let data = Self.decode(bare) {
            let inner = CredentialFile(data, isDecoded: true)
            if !inner.contents.isEmpty { self = inner }
            return
        }
        if bare.isEmpty {
            damage = "the file is empty"
        } else if bare.hasPrefix("<") {
            damage = "the file is a page in HTML or XML"
        } else if text.firstRange(of: "BEGIN ") != nil, text.firstRange(of: "END ") != nil {
            damage = "the lines BEGIN and END have other dashes than five hyphens at each end"
        }
    }

    /// Characters of base64 below which a text is no credential.
    private static let leastBase64 = 64
    /// Characters of a label.
    private static let longestLabel = 40
    private static let quotes: Set<Character> = ["\"", "'", "`", ",", "\u{FEFF}"]

    /// Returns the text with LF for CR, CR LF and the escapes of both.
    private static func withLineBreaks(_ bytes: [UInt8]) -> String {
        var text = String(decoding: bytes, as: UTF8.self)
        for mark in ["\\r\\n", "\\n", "\\r", "\r\n", "\r"] where text.firstRange(of: mark) != nil {
            text.replace(mark, with: "\n")
        }
        return text
    }

    private mutating func readBlocks(_ text: String) {
        var rest = text[...]
        while let begin = rest.firstRange(of: "-----BEGIN ") {
            rest = rest[begin.upperBound...]
            guard let mark = rest.firstRange(of: "-----"),
                case let label = rest[..<mark.lowerBound], label.count <= Self.longestLabel
            else {
                note("a line BEGIN is incomplete")
                continue
            }
            rest = rest[mark.upperBound...]
            guard let end = rest.firstRange(of: "-----END ") else {
                note("the text ends before the line END \(label)")
                return
            }
            let body = rest[..<end.lowerBound]
            rest = rest[end.upperBound...]
            if let next = body.firstRange(of: "-----BEGIN ") {
                note("the line END \(label) is missing")
                rest = text[next.lowerBound...]
            } else if !rest.hasPrefix("\(label)-----") {
                note("the line END \(label) is missing or incomplete")
            } else {
                readBlock(body, label)
            }
        }
        if !contents.isEmpty, !pem.isEmpty { damage = nil }
    }

    private mutating func note(_ fault: String) { damage = damage ?? fault }

    private mutating func readBlock(_ body: Substring, _ label: Substring) {
        var words = body.split { $0.isWhitespace || Self.quotes.contains($0) && $0 != "," }
        var headers: [Substring] = []
        // The headers of a key in OpenSSL's own format: Proc-Type: 4,ENCRYPTED and DEK-Info: CIPHER,SALT.
        while words.count >= 2, words[0].hasSuffix(":") {
            headers.append("\(words[0]) \(words[1])")
            words.removeFirst(2)
        }
        guard let data = Self.decode(words.joined()) else {
            let isBase64 = words.allSatisfy { $0.utf8.allSatisfy(Self.isBase64) }
            return note("the text between BEGIN \(label) and END \(label) \(isBase64 ? "is incomplete" : "is not base64")")
        }
        guard !data.isEmpty else { return note("there is nothing between BEGIN \(label) and END \(label)") }
        contents.append(Content(label: label))
        append(data, label: String(label), headers: headers.map(String.init))
    }

    private mutating func append(_ data: [UInt8], label: String, headers: [String]) {
        var lines = ["-----BEGIN \(label)-----"]
        if !headers.isEmpty { lines += headers + [""] }
        let text = Base64.encode(data)
        lines += stride(from: 0, to: text.count, by: 64).map { start in
            String(decoding: text[start..<min(start + 64, text.count)], as: UTF8.self)
        }
        pem += Array((lines + ["-----END \(label)-----", ""]).joined(separator: "\n").utf8)
    }

    private static func decode(_ text: String) -> [UInt8]? { Base64.decode(Array(text.utf8)[...], as: .standard) }

    private static func isBase64(_ byte: UInt8) -> Bool {
        "+/=".utf8.contains(byte) || 0x30...0x39 ~= byte || 0x41...0x5A ~= byte || 0x61...0x7A ~= byte
    }
}

/// The kind of a DER text, by the tags of its first elements (X.690).
private enum DERContent {
    case certificate, pkcs8, encryptedPKCS8, sec1, pkcs1, publicKey, pkcs12

    private enum Tag {
        static let sequence: UInt8 = 0x30
        static let integer: UInt8 = 0x02
        static let bitString: UInt8 = 0x03
        static let octetString: UInt8 = 0x04
        static let objectID: UInt8 = 0x06
    }

    init?(_ bytes: [UInt8]) {
        guard let whole = Self.element(bytes[...]), whole.tag == Tag.sequence, whole.rest.isEmpty,
            let first = Self.element(whole.body), let second = Self.element(first.rest)
        else { return nil }
        switch (first.tag, second.tag) {
        case (Tag.integer, Tag.sequence): self = first.body.elementsEqual([3]) ? .pkcs12 : .pkcs8
        case (Tag.integer, Tag.octetString): self = .sec1
        case (Tag.integer, Tag.integer): self = .pkcs1
        case (Tag.sequence, Tag.octetString): self = .encryptedPKCS8
        case (Tag.sequence, Tag.bitString): self = .publicKey
        case (Tag.sequence, Tag.sequence): self = .certificate
        default: return nil
        }
    }

    /// The label of its PEM block; `nil` for PKCS#12, which has none.
    var label: String? {
        switch self {
        case .certificate: "CERTIFICATE"
        case .pkcs8: "PRIVATE KEY"
        case .encryptedPKCS8: "ENCRYPTED PRIVATE KEY"
        case .sec1: "EC PRIVATE KEY"
        case .pkcs1: "RSA PRIVATE KEY"
        case .publicKey: "PUBLIC KEY"
        case .pkcs12: nil
        }
    }

    var content: CredentialFile.Content {
        switch self {
        case .certificate: .certificate
        case .pkcs8, .encryptedPKCS8, .sec1, .pkcs1: .privateKey
        case .publicKey: .publicKey
        case .pkcs12: .pkcs12
        }
    }

    /// Splits the first element off; `nil` if it is longer than the bytes, or of indefinite length.
    private static func element(_ bytes: ArraySlice<UInt8>) -> (tag: UInt8, body: ArraySlice<UInt8>, rest: ArraySlice<UInt8>)? {
        guard bytes.count >= 2 else { return nil }
        let (tag, short) = (bytes[bytes.startIndex], bytes[bytes.startIndex + 1])
        var start = bytes.startIndex + 2
        var length = Int(short)
        if short >= 0x80 {
            let count = Int(short & 0x7F)
            guard (1...4).contains(count), bytes.endIndex - start >= count else { return nil }
            length = bytes[start..<(start + count)].reduce(0) { $0 << 8 | Int($1) }
            start += count
        }
        guard bytes.endIndex - start >= length else { return nil }
        return (tag, bytes[start..<(start + length)], bytes[(start + length)...])
    }
}
