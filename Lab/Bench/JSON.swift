import Harness
import JSONBytes

/// Values of the JSON report of the benchmarks.
indirect enum JSON {
    case text(String)
    case number(Double, digits: Int)
    case array([JSON])
    /// Members in order.
    case object([(String, JSON)])

    static func integer(_ number: Int) -> JSON { .number(Double(number), digits: 0) }

    /// The text, with one line per member of the outer levels.
    func bytes(indent: Int = 0) -> [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes, indent: indent)
        return bytes
    }

    private func write(to bytes: inout [UInt8], indent: Int) {
        func list(_ open: Character, _ close: Character, _ count: Int, isFlat: Bool, _ item: (Int, inout [UInt8]) -> Void) {
            let line = isFlat ? "" : "\n" + String(repeating: "  ", count: indent + 1)
            bytes += String(open).utf8
            for index in 0..<count {
                if index > 0 { bytes += (isFlat ? ", " : ",").utf8 }
                bytes += line.utf8
                item(index, &bytes)
            }
            if !isFlat && count > 0 { bytes += ("\n" + String(repeating: "  ", count: indent)).utf8 }
            bytes += String(close).utf8
        }
        switch self {
        case .text(let text): bytes.appendJSONString(text)
        case .number(let value, let digits): bytes += decimal(value, digits).utf8
        case .array(let items):
            list("[", "]", items.count, isFlat: false) { items[$0].write(to: &$1, indent: indent + 1) }
        case .object(let members):
            list("{", "}", members.count, isFlat: indent > 1) { index, bytes in
                bytes.appendJSONString(members[index].0)
                bytes += ": ".utf8
                members[index].1.write(to: &bytes, indent: indent + 1)
            }
        }
    }
}
