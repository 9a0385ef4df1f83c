/// A JSON object of strings and integers, which is all that the two halves of a provider token are. Anything nested is
/// refused.
struct FlatJSON {
    private enum Value {
        case string(String)
        case integer(Int64)
        case other
    }

    private var values: [String: Value] = [:]

    init?(_ bytes: [UInt8]) {
        var rest = bytes[...]
        guard FlatJSON.take("{", &rest) else { return nil }
        if !FlatJSON.take("}", &rest) {
            repeat {
                guard let name = FlatJSON.takeString(&rest), FlatJSON.take(":", &rest),
                    let value = FlatJSON.takeValue(&rest)
                else { return nil }
                values[name] = value
            } while FlatJSON.take(",", &rest)
            guard FlatJSON.take("}", &rest) else { return nil }
        }
        FlatJSON.skipBlanks(&rest)
        if !rest.isEmpty { return nil }
    }

    func string(_ name: String) -> String? {
        if case .string(let text) = values[name] { text } else { nil }
    }

    func integer(_ name: String) -> Int64? {
        if case .integer(let number) = values[name] { number } else { nil }
    }

    private static func take(_ mark: Unicode.Scalar, _ rest: inout ArraySlice<UInt8>) -> Bool {
        skipBlanks(&rest)
        guard rest.first == UInt8(ascii: mark) else { return false }
        rest.removeFirst()
        return true
    }

    private static func skipBlanks(_ rest: inout ArraySlice<UInt8>) {
        rest = rest.drop { $0 == 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
    }

    /// Key and team ids are letters and digits: a string with an escape in it matches none of them.
    private static func takeString(_ rest: inout ArraySlice<UInt8>) -> String? {
        guard take("\"", &rest), let end = rest.firstIndex(where: { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }),
            rest[end] == UInt8(ascii: "\"")
        else { return nil }
        let text = String(validating: rest[..<end], as: UTF8.self)
        rest = rest[(end + 1)...]
        return text
    }

    private static func takeValue(_ rest: inout ArraySlice<UInt8>) -> Value? {
        skipBlanks(&rest)
        if rest.first == UInt8(ascii: "\"") { return takeString(&rest).map(Value.string) }
        let word = rest.prefix { $0 != UInt8(ascii: ",") && $0 != UInt8(ascii: "}") && $0 > 0x20 }
        rest = rest[word.endIndex...]
        let text = String(decoding: word, as: UTF8.self)
        if let number = Int64(text) { return .integer(number) }
        // Some libraries write `iat` with a fraction.
        if let number = Double(text), abs(number) < 1e15 { return .integer(Int64(number)) }
        return ["true", "false", "null"].contains(text) ? .other : nil
    }
}
