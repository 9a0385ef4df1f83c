internal import JSONBytes

/// Writes one JSON object, member by member.
struct RecordWriter {
    private var bytes: [UInt8] = []

    init(capacity: Int) { bytes.reserveCapacity(capacity) }

    mutating func add(_ key: String, text: String?) {
        add(key)
        if let text { bytes.appendJSONString(text) } else { addNull() }
    }

    mutating func add(_ key: String, number: Int64?) {
        add(key)
        if let number { bytes.append(contentsOf: "\(number)".utf8) } else { addNull() }
    }

    /// Adds a value that is already JSON.
    mutating func add(_ key: String, json: [UInt8]?) {
        add(key)
        if let json { bytes += json } else { addNull() }
    }

    mutating func add(_ key: String, utf8: [UInt8]) {
        add(key)
        bytes.appendJSONString(utf8: utf8)
    }

    consuming func finish() -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private mutating func add(_ key: String) {
        bytes.append(contentsOf: (bytes.isEmpty ? "{\"" : ", \"").utf8)
        bytes.append(contentsOf: key.utf8)
        bytes.append(contentsOf: "\": ".utf8)
    }

    private mutating func addNull() { bytes.append(contentsOf: "null".utf8) }
}
