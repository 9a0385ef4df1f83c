import Foundation
import Harness
import JSONBytes
import Testing

/// Python's `json` with its two liberties taken away is a strict parser that shares no line with ours.
@Suite("Against another parser")
struct DifferentialTests {
    private static let judge = """
        import json, sys
        def refuse(name): raise ValueError(name)
        def text(value): return value.encode('utf-16-le', 'surrogatepass').decode('utf-16-le', 'replace').encode().hex()
        for line in open(sys.argv[1]):
            try:
                value = json.loads(bytes.fromhex(line).decode('utf-8'), parse_constant=refuse, parse_int=float, parse_float=float)
                print('string:' + text(value) if isinstance(value, str) else 'good')
            except ValueError:
                print('bad')
        """

    private static let seeds: [String] = [
        #"{"token":"071c09ab","data":{"aps":{"alert":"Hello"}},"identifier":154}"#, #"[1,-2.5e+3,0,true,false,null,"",{},[]]"#,
        #""\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t plain text""#, "\"Grüße, 世界 😀\"", #"{"a":{"b":{"c":[[[1]]]}},"a":"é","\u0061":[]}"#,
        " \t\r\n[ { } , [ ] ]\n", #""\ud800\udc00\udc00\ud800x""#, #"[0.1,1E-7,-0,10,9007199254740993,1e400]"#,
    ]
    private static let pieces: [String] = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud83d", "\\ude00", "0", "1", "-", "+", ".", "e", "E", "true", "null",
        "NaN", "Infinity", " ",
        "\n", "\u{0}", "\u{1F}", "\u{7F}", "é", "€", "😀", "\u{FEFF}", "\u{A0}", "a", "\\n", "\\/", "\"a\":", "[]", "{}",
    ]

    private static let seed = number("GAPLESS_FUZZ_SEED") ?? .random(in: 0...UInt64.max)
    private static let rounds = Int(number("GAPLESS_FUZZ_ROUNDS") ?? 20_000)

    private static func number(_ name: String) -> UInt64? {
        ProcessInfo.processInfo.environment[name].flatMap { UInt64($0) }
    }

    @Test(.enabled(if: isPythonThere, "python3 is not on this machine"))
    func `both agree on every mutated text`() throws {
        print("GAPLESS_FUZZ_SEED=\(Self.seed) GAPLESS_FUZZ_ROUNDS=\(Self.rounds)")
        var generator = SeededGenerator(seed: Self.seed)
        let texts = (0..<Self.rounds).map { _ in Self.mutated(using: &generator) }
        let verdicts = try Self.verdicts(on: texts)
        try #require(verdicts.count == texts.count)
        #expect(verdicts.contains { $0 != "bad" } && verdicts.contains("bad"))

        for (text, verdict) in zip(texts, verdicts) {
            let fault = fault(in: text)
            #expect(
                (fault == nil) == (verdict != "bad"), "seed \(Self.seed): \(hex(text)) \(String(decoding: text, as: UTF8.self))")
            #expect(Self.faultOfTree(text) == fault, "seed \(Self.seed): stepping over and into it differ: \(hex(text))")
            if let ofMembers = Self.faultOfMembers(text) {
                #expect(ofMembers == .some(fault), "seed \(Self.seed): passing its members differs: \(hex(text))")
            }
            #expect((fault?.offset ?? 0) <= text.count)
            if verdict.hasPrefix("string:"), fault == nil {
                let decoded = try slice(of: text).utf8(in: text.span)
                #expect(hex(decoded) == verdict.dropFirst(7), "seed \(Self.seed): \(hex(text))")
            }
        }
    }

    /// A text of `Texts/texts.txt`, and whether it is JSON.
    private struct OwnText: CustomStringConvertible {
        let isGood: Bool
        let name: String
        let bytes: [UInt8]

        var description: String { name }

        /// - Parameter line: `good NAME TEXT` or `bad NAME TEXT`, in which `%NN` is a byte.
        init?(_ line: Substring) {
            let fields = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count >= 2, ["good", "bad"].contains(fields[0]) else { return nil }
            isGood = fields[0] == "good"
            name = String(fields[1])
            var bytes: [UInt8] = []
            var rest = (fields.count > 2 ? fields[2] : "")[...]
            while let character = rest.popFirst() {
                if character == "%" {
                    guard let byte = UInt8(rest.prefix(2), radix: 16) else { return nil }
                    bytes.append(byte)
                    rest = rest.dropFirst(2)
                } else {
                    bytes += Array(String(character).utf8)
                }
            }
            self.bytes = bytes
        }

        static let all = Checkout.read("Tests/JSONBytesTests/Texts/texts.txt").split(separator: "\n").filter {
            !$0.hasPrefix("#")
        }
        .map(OwnText.init)
    }

    @Test func `every own text has the verdict of its line`() throws {
        let texts = try OwnText.all.map { try #require($0) }
        #expect(texts.count >= 200)
        for text in texts {
            let fault = fault(in: text.bytes)
            #expect((fault == nil) == text.isGood, "\(text): \(String(describing: fault))")
            #expect(Self.faultOfTree(text.bytes) == fault, "\(text): stepping over and into it differ")
            if let ofMembers = Self.faultOfMembers(text.bytes) {
                #expect(ofMembers == .some(fault), "\(text): passing its members differs")
            }
            #expect((fault?.offset ?? 0) <= text.bytes.count, "\(text)")
        }
    }

    @Test(.enabled(if: isPythonThere, "python3 is not on this machine"))
    func `Python has the same verdict on every own text, and the same value of each string`() throws {
        let texts = OwnText.all.compactMap(\.self)
        let verdicts = try Self.verdicts(on: texts.map(\.bytes))
        try #require(verdicts.count == texts.count)
        for (text, verdict) in zip(texts, verdicts) {
            #expect((verdict != "bad") == text.isGood, "\(text)")
            if verdict.hasPrefix("string:") {
                #expect(hex(try slice(of: text.bytes).utf8(in: text.bytes.span)) == verdict.dropFirst(7), "\(text)")
            }
        }
    }

    private static func faultOfTree(_ text: [UInt8]) -> JSONError? {
        do {
            _ = try JSONValue.parse(text)
            return nil
        } catch {
            return error
        }
    }

    /// Returns `nil` for a text that does not begin with an object.
    private static func faultOfMembers(_ text: [UInt8]) -> JSONError?? {
        var cursor = JSONCursor()
        guard cursor.peek(in: text.span) == .object else { return .none }
        do {
            try cursor.enterObject(in: text.span)
            while try cursor.nextMember(in: text.span) != nil {}
            try cursor.finish(in: text.span)
            return .some(nil)
        } catch {
            return error
        }
    }

    private static func mutated(using generator: inout SeededGenerator) -> [UInt8] {
        var text = Array(seeds.randomElement(using: &generator)!.utf8)
        for _ in 0..<Int.random(in: 0...3, using: &generator) {
            let start = Int.random(in: 0...text.count, using: &generator)
            let end = min(text.count, start + Int.random(in: 0...3, using: &generator))
            switch Int.random(in: 0..<5, using: &generator) {
            case 0: text.removeSubrange(start..<end)
            case 1: text.insert(contentsOf: pieces.randomElement(using: &generator)!.utf8, at: start)
            case 2: text.replaceSubrange(start..<end, with: pieces.randomElement(using: &generator)!.utf8)
            case 3: text.insert(contentsOf: Array(text[start..<end]), at: Int.random(in: 0...text.count, using: &generator))
            default: if start < text.count { text[start] = .random(in: 0...255, using: &generator) }
            }
        }
        return text
    }

    private static var isPythonThere: Bool {
        (try? run(["-c", "pass"])) != nil
    }

    private static func verdicts(on texts: [[UInt8]]) throws -> [String] {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("gaplessd-json-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        try texts.map { hex($0) }.joined(separator: "\n").appending("\n").write(to: file, atomically: false, encoding: .utf8)
        return try run(["-c", judge, file.path]).split(separator: "\n").map(String.init)
    }

    /// python3's standard output; throws where it is missing or fails.
    private static func run(_ arguments: [String]) throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3"] + arguments
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CocoaError(.executableLoad) }
        return String(decoding: text, as: UTF8.self)
    }
}

private func hex(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}
