import Glibc
import JSONBytes

/// A settings file, and the environment variables that its paths may name.
struct SettingsFile: Sendable {
    var path: String
    var environment: @Sendable (String) -> String? = { name in unsafe getenv(name).map { unsafe String(cString: $0) } }

    /// The largest settings file. A larger one is the wrong file.
    static let mostBytes = 16 << 20

    /// The members of the object in the file.
    func members() throws(SettingsErrors) -> [JSONMember] { try membersAndDigest().members }

    /// The members of the object in the file, and a hash of its bytes, which only this process can compare.
    func membersAndDigest() throws(SettingsErrors) -> (members: [JSONMember], digest: Int) {
        if path.isEmpty { throw fault("the path is empty", expected: "the path of a settings file") }
        let bytes: [UInt8]
        do {
            bytes = try FileBytes.read(path, atMost: Self.mostBytes)
        } catch {
            throw fault("cannot be read: \(error)", expected: "a settings file that this user can read")
        }
        let text = bytes.withoutByteOrderMark
        let value: JSONValue
        do {
            value = try JSONValue.parse(text)
        } catch {
            let hint = text.isEmpty ? nil : error.mistake(in: text)
            var errors = fault(
                "invalid JSON at \(Self.place(of: error.offset, in: text))\(hint.map { " (\($0))" } ?? "")",
                expected: error.expected.rawValue)
            (errors.digest, errors.isIncomplete) = (bytes.hashValue, error.offset >= text.count)
            throw errors
        }
        guard case .object(let members) = value else {
            throw fault("contains no JSON object", expected: "{\"apns_server\": …, \"redis_queue_key\": …}")
        }
        return (members, bytes.hashValue)
    }

    private func fault(_ problem: String, expected: String) -> SettingsErrors {
        SettingsErrors(file: path, faults: [SettingsError(key: "", problem: problem, expected: expected)])
    }

    /// Lines and columns count from 1, bytes from 0; a column is a byte.
    static func place(of offset: Int, in bytes: [UInt8]) -> String {
        let before = bytes.prefix(offset)
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let column = before.reversed().prefix { $0 != UInt8(ascii: "\n") }.count + 1
        return "byte \(offset), line \(line), column \(column)"
    }

    /// Expands each `${NAME}` of a path, and prepends the folder of the settings file to a relative path.
    func resolve(_ text: String) throws(SettingError) -> String {
        var expanded = ""
        var rest = text[...]
        while let start = rest.firstRange(of: "${") {
            guard let end = rest[start.upperBound...].firstIndex(of: "}") else {
                throw SettingError(text: "\"${\" without \"}\"", expected: "${NAME}")
            }
            let name = String(rest[start.upperBound..<end])
            guard let value = environment(name), !value.isEmpty else {
                let state = environment(name) == nil ? "not set" : "empty"
                throw SettingError(
                    text: "the environment variable \(name) is \(state)", expected: "a variable that is set and not empty")
            }
            expanded += rest[..<start.lowerBound] + value
            rest = rest[rest.index(after: end)...]
        }
        expanded += rest
        guard !expanded.hasPrefix("/"), let slash = path.lastIndex(of: "/") else { return expanded }
        return path[...slash] + expanded
    }
}
