import Clocks
import Glibc
import JSONBytes
import Threads

/// Where settings come from: their path, and the environment that their paths may name.
struct SettingsFile: Sendable {
    var path: String
    var environment: @Sendable (String) -> String? = { name in getenv(name).map { String(cString: $0) } }

    /// Settings and secrets are small: what is larger is the wrong file.
    static let mostBytes = 16 << 20

    /// The members of the object that the file must hold.
    func members() throws(SettingsErrors) -> [JSONMember] {
        if path.isEmpty { throw refusal("is no path", "the path of a file of settings would be right") }
        let bytes: [UInt8]
        do {
            bytes = try FileBytes.read(path, atMost: Self.mostBytes)
        } catch {
            throw refusal("cannot be read: \(error)", "a readable file of settings would be right")
        }
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) {
            throw refusal("begins with a byte order mark, which JSON has not", "the same in UTF-8 without it would be right")
        }
        let value: JSONValue
        do {
            value = try JSONValue.parse(bytes)
        } catch {
            throw refusal("is no JSON at \(Self.place(of: error.offset, in: bytes))", "expected \(error.expected.rawValue)")
        }
        guard case .object(let members) = value else {
            throw refusal("holds no JSON object", "{\"apns_server\": …, \"redis_queue_key\": …} would be right")
        }
        return members
    }

    private func refusal(_ problem: String, _ remedy: String) -> SettingsErrors {
        SettingsErrors(file: path, faults: [SettingsError(key: "", problem: problem, remedy: remedy)])
    }

    /// Lines and columns count from 1, bytes from 0; a column is a byte.
    static func place(of offset: Int, in bytes: [UInt8]) -> String {
        let before = bytes.prefix(offset)
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let column = before.reversed().prefix { $0 != UInt8(ascii: "\n") }.count + 1
        return "byte \(offset), line \(line), column \(column)"
    }

    /// Why a path of the settings names no file.
    enum PathFault: Error, Equatable {
        case unset(String)
        case empty(String)
        case unclosed
    }

    /// Replaces each `${NAME}`, and lets a relative path start from the settings file's folder.
    func resolve(_ text: String) throws(PathFault) -> String {
        var expanded = ""
        var rest = text[...]
        while let start = rest.firstRange(of: "${") {
            guard let end = rest[start.upperBound...].firstIndex(of: "}") else { throw .unclosed }
            let name = String(rest[start.upperBound..<end])
            guard let value = environment(name) else { throw .unset(name) }
            if value.isEmpty { throw .empty(name) }
            expanded += rest[..<start.lowerBound] + value
            rest = rest[rest.index(after: end)...]
        }
        expanded += rest
        if expanded.hasPrefix("/") { return expanded }
        guard let slash = path.lastIndex(of: "/") else { return expanded }
        return path[...slash] + expanded
    }
}
