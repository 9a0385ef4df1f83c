import JSONBytes

// Output of calls as JSON: one object on one line, its members in the given order.
extension JSONValue {
    static func members(_ members: KeyValuePairs<String, JSONValue>) -> JSONValue {
        .object(members.map { JSONMember($0.key, $0.value) })
    }

    static func integer(_ number: some BinaryInteger) -> JSONValue { .number("\(number)") }

    /// A number with at most one decimal place.
    static func rounded(_ number: Double) -> JSONValue { .number("\((number * 10).rounded() / 10)") }

    static func optional(_ text: String?) -> JSONValue { text.map(JSONValue.string) ?? .null }

    /// The JSON text on several lines: each member of an object on its own.
    func indented(by depth: Int = 0) -> [String] {
        guard case .object(let members) = self, !members.isEmpty else { return [line] }
        let inner = String(repeating: "  ", count: depth + 1)
        var lines = ["{"]
        for (index, member) in members.enumerated() {
            let value = member.value.indented(by: depth + 1)
            lines.append("\(inner)\(JSONValue.string(member.key).line): \(value[0])")
            lines += value.dropFirst()
            if index < members.count - 1 { lines[lines.count - 1] += "," }
        }
        return lines + [String(repeating: "  ", count: depth) + "}"]
    }

    /// The JSON text.
    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes)
        return bytes
    }

    /// The JSON text as a line of output.
    var line: String { String(decoding: bytes, as: UTF8.self) }

    /// Returns a record on one line. An unreadable record becomes base64, so that every line is JSON.
    static func line(of record: [UInt8], isReadable: Bool) -> String {
        if isReadable, isValidUTF8(record) { return String(decoding: Job.onOneLine(record), as: UTF8.self) }
        return members(["unreadable_base64": .string(String(decoding: Base64.encode(record), as: UTF8.self))]).line
    }

    private func write(to bytes: inout [UInt8]) {
        switch self {
        case .object(let members):
            bytes += Array("{".utf8)
            for (index, member) in members.enumerated() {
                if index > 0 { bytes += Array(", ".utf8) }
                bytes.appendJSONString(member.key)
                bytes += Array(": ".utf8)
                member.value.write(to: &bytes)
            }
            bytes += Array("}".utf8)
        case .array(let elements):
            bytes += Array("[".utf8)
            for (index, element) in elements.enumerated() {
                if index > 0 { bytes += Array(", ".utf8) }
                element.write(to: &bytes)
            }
            bytes += Array("]".utf8)
        case .string(let text): bytes.appendJSONString(text)
        case .number(let digits): bytes += Array(digits.utf8)
        case .bool(let flag): bytes += Array("\(flag)".utf8)
        case .null: bytes += Array("null".utf8)
        }
    }
}

extension JSONMember {
    /// A member of output.
    init(_ key: String, _ value: JSONValue) { self.init(key: key, value: value, offset: 0) }

    /// Bytes as text, or as base64 under `KEY_base64` if they are not UTF-8.
    init(_ key: String, bytes: [UInt8]) {
        let isText = isValidUTF8(bytes)
        let text = String(decoding: isText ? bytes : Base64.encode(bytes), as: UTF8.self)
        self.init(isText ? key : "\(key)_base64", .string(text))
    }
}
