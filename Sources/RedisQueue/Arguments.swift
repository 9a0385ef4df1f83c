/// Arguments of a command in the Redis protocol, ready to be sent but for the line that counts them.
///
/// Our own writer and not hiredis' formatter: a batch of 256 acknowledgements is built in place while the answers come
/// in, and is copied once.
struct Arguments: Equatable {
    private(set) var bytes: [UInt8] = []
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ argument: [UInt8]) {
        start(length: argument.count)
        bytes.append(contentsOf: argument)
        end()
    }

    mutating func append(_ argument: String) {
        start(length: argument.utf8.count)
        bytes.append(contentsOf: argument.utf8)
        end()
    }

    mutating func append(_ number: Int) {
        append(String(number))
    }

    /// Without a `String` in between: this is written once for every job that is acknowledged.
    mutating func append(_ number: UInt64) {
        var digits = 1
        var bound: UInt64 = 10
        while digits < 19 && number >= bound {
            digits += 1
            bound *= 10
        }
        if digits == 19 && number >= bound { digits = 20 }
        start(length: digits)
        let first = bytes.count
        bytes.append(contentsOf: repeatElement(UInt8(ascii: "0"), count: digits))
        var rest = number
        var place = first + digits
        while rest > 0 {
            place -= 1
            bytes[place] &+= UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        end()
    }

    mutating func append(contentsOf other: Arguments) {
        bytes.append(contentsOf: other.bytes)
        count += other.count
    }

    private mutating func start(length: Int) {
        bytes.append(UInt8(ascii: "$"))
        if length < 10 {
            bytes.append(UInt8(ascii: "0") + UInt8(length))
        } else {
            bytes.append(contentsOf: String(length).utf8)
        }
        end()
        count += 1
    }

    private mutating func end() {
        bytes.append(UInt8(ascii: "\r"))
        bytes.append(UInt8(ascii: "\n"))
    }

    init() {}

    init(_ arguments: [String]) {
        for argument in arguments { append(argument) }
    }

    init(_ arguments: [[UInt8]]) {
        for argument in arguments { append(argument) }
    }
}

extension [UInt8] {
    /// Writes one whole command: the head, then the parts, one after the other.
    mutating func appendCommand(_ head: Arguments, _ parts: [Arguments] = []) {
        var count = head.count
        for index in parts.indices { count += parts[index].count }
        append(UInt8(ascii: "*"))
        append(contentsOf: String(count).utf8)
        append(UInt8(ascii: "\r"))
        append(UInt8(ascii: "\n"))
        append(contentsOf: head.bytes)
        for index in parts.indices { append(contentsOf: parts[index].bytes) }
    }
}
