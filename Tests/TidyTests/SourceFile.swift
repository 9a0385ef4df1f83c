import Foundation
import Harness

/// One Swift file of the checkout.
struct SourceFile {
    /// Relative to the checkout.
    let path: String
    let text: String
    let swift: SwiftText

    /// The file's name without `.swift`.
    var name: String { String(path.split(separator: "/").last?.dropLast(6) ?? "") }

    /// The name of the type that the file is named after: `Dial` for `Dial+Proxy.swift`.
    var typeName: String { String(name.prefix { $0 != "+" }) }

    var folder: String { path.split(separator: "/").dropLast().joined(separator: "/") }

    var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

    /// The types that the file declares outside of every other type.
    let topLevelTypes: [String]

    /// The types that the file declares inside of others.
    let nestedTypes: Set<String>

    init(path: String) {
        self.path = path
        text = Checkout.read(path)
        swift = SwiftText(text)
        var top: [String] = []
        var nested: Set<String> = []
        for line in String(decoding: swift.code, as: UTF8.self).split(separator: "\n") {
            guard let type = Self.declaredType(in: line) else { continue }
            if line.first == " " { nested.insert(type) } else { top.append(type) }
        }
        topLevelTypes = top
        nestedTypes = nested
    }

    private static let modifiers: Set<Substring> = [
        "public", "package", "internal", "private", "fileprivate", "final", "indirect", "nonisolated",
    ]
    private static let kinds: Set<Substring> = ["struct", "class", "enum", "actor", "protocol"]

    private static func declaredType(in line: Substring) -> String? {
        let words = line.split(separator: " ").drop { $0.hasPrefix("@") || modifiers.contains($0) }
        guard let kind = words.first, kinds.contains(kind) || kind == "typealias" && line.first == " ",
            let name = words.dropFirst().first?.prefix(while: { $0.isLetter || $0.isNumber || $0 == "_" }), name != "func",
            name != "var", !name.isEmpty
        else { return nil }
        return String(name)
    }

    /// The identifiers that begin with an upper-case letter and do not follow a dot, each with its first line.
    var typeNames: [String: Int] {
        var names: [String: Int] = [:]
        var line = 1
        var start: Int?
        let code = swift.code
        for (index, byte) in (code + [10]).enumerated() {
            let isWord = byte == 95 || (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
            if isWord {
                if start == nil { start = index }
            } else if let first = start {
                start = nil
                if (65...90).contains(code[first]), first == 0 || code[first - 1] != UInt8(ascii: ".") {
                    let name = String(decoding: code[first..<index], as: UTF8.self)
                    if names[name] == nil { names[name] = line }
                }
            }
            if byte == 10 { line += 1 }
        }
        return names
    }
}

extension SourceFile {
    /// Every Swift file below Sources, Client, Lab and Tests, and Package.swift.
    /// Without the steps of the tutorial, which are parts of one program.
    static let all: [SourceFile] =
        (["Sources", "Client", "Lab", "Tests"].flatMap { files(below: $0, suffix: ".swift") } + ["Package.swift"])
        .filter { !$0.contains(".docc/") }.map(SourceFile.init)

    static let product = all.filter { $0.path.hasPrefix("Sources/") || $0.path.hasPrefix("Client/Sources/") }
    static let lab = all.filter { $0.path.hasPrefix("Lab/") }
    static let tests = all.filter { $0.path.hasPrefix("Tests/") || $0.path.hasPrefix("Client/Tests/") }

    /// Paths relative to the checkout, sorted.
    static func files(below folder: String, suffix: String) -> [String] {
        let found =
            FileManager.default.enumerator(atPath: "\(Checkout.path)/\(folder)")?.compactMap { $0 as? String }.filter {
                !$0.contains(".build/")
            } ?? []
        return found.filter { $0.hasSuffix(suffix) }.map { "\(folder)/\($0)" }.sorted()
    }
}

/// The code of one Swift file, without its English.
struct SwiftText {
    /// The file with comments, string literals and names in backticks replaced by spaces. Line breaks stay.
    private(set) var code: [UInt8]

    private let bytes: [UInt8]
    private var position = 0

    init(_ text: String) {
        bytes = Array(text.utf8)
        code = bytes
        readCode(untilParenthesis: false)
    }

    private func byte(_ offset: Int = 0) -> UInt8 { position + offset < bytes.count ? bytes[position + offset] : 0 }

    private mutating func advance() { if position < bytes.count { position += 1 } }

    /// Replaces the current byte by a space in `code` and moves on.
    private mutating func blank() {
        guard position < bytes.count else { return }
        if byte() != UInt8(ascii: "\n") { code[position] = UInt8(ascii: " ") }
        advance()
    }

    private mutating func readCode(untilParenthesis: Bool) {
        var depth = 0
        while position < bytes.count {
            switch byte() {
            case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "/"): readLineComment()
            case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "*"): readBlockComment()
            case UInt8(ascii: "/") where isRegexStart: readRegex()
            case UInt8(ascii: "\""),
                UInt8(ascii: "#") where isRawString:
                readString()
            case UInt8(ascii: "`"): readBackticks()
            case UInt8(ascii: "("):
                depth += 1
                advance()
            case UInt8(ascii: ")"):
                if untilParenthesis, depth == 0 { return }
                depth -= 1
                advance()
            default: advance()
            }
        }
    }

    private mutating func readLineComment() {
        while position < bytes.count, byte() != UInt8(ascii: "\n") { blank() }
    }

    private mutating func readBlockComment() {
        var depth = 0
        repeat {
            let pair = (byte(), byte(1))
            if pair == (UInt8(ascii: "/"), UInt8(ascii: "*")) {
                depth += 1
                blank()
            } else if pair == (UInt8(ascii: "*"), UInt8(ascii: "/")) {
                depth -= 1
                blank()
            }
            blank()
        } while depth > 0 && position < bytes.count
    }

    /// A slash that follows an opening bracket, a comma, a colon or an equals sign and precedes no space begins a regex.
    private var isRegexStart: Bool {
        guard byte(1) != UInt8(ascii: " ") else { return false }
        let before = bytes[..<position].last { $0 != UInt8(ascii: " ") } ?? 0
        return "(,:=[".utf8.contains(before)
    }

    private mutating func readRegex() {
        blank()
        while position < bytes.count, byte() != UInt8(ascii: "/"), byte() != UInt8(ascii: "\n") {
            if byte() == UInt8(ascii: "\\") { blank() }
            blank()
        }
        blank()
    }

    private var isRawString: Bool {
        let after = bytes[position...].first { $0 != UInt8(ascii: "#") }
        return after == UInt8(ascii: "\"")
    }

    private mutating func readString() {
        var hashes = 0
        while byte() == UInt8(ascii: "#") {
            hashes += 1
            blank()
        }
        let quotes = byte(1) == UInt8(ascii: "\"") && byte(2) == UInt8(ascii: "\"") ? 3 : 1
        for _ in 0..<quotes { blank() }
        while position < bytes.count, !isEnd(quotes: quotes, hashes: hashes) {
            let isEscape = byte() == UInt8(ascii: "\\") && (0..<hashes).allSatisfy { byte(1 + $0) == UInt8(ascii: "#") }
            guard isEscape else {
                blank()
                continue
            }
            for _ in 0...hashes { blank() }
            guard byte() == UInt8(ascii: "(") else {
                blank()
                continue
            }
            advance()
            readCode(untilParenthesis: true)
            advance()
        }
        for _ in 0..<(quotes + hashes) { blank() }
    }

    private func isEnd(quotes: Int, hashes: Int) -> Bool {
        (0..<quotes).allSatisfy { byte($0) == UInt8(ascii: "\"") }
            && (0..<hashes).allSatisfy { byte(quotes + $0) == UInt8(ascii: "#") }
    }

    private mutating func readBackticks() {
        blank()
        while position < bytes.count, byte() != UInt8(ascii: "`") { blank() }
        blank()
    }
}
