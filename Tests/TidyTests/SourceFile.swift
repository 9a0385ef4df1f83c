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
        let found = FileManager.default.enumerator(atPath: "\(Checkout.path)/\(folder)")?.compactMap { $0 as? String } ?? []
        return found.filter { $0.hasSuffix(suffix) }.map { "\(folder)/\($0)" }.sorted()
    }
}
