/// `--port PORT --credentials FOLDER [--count N] [--tasks N] [--sequence]`
struct Options: Sendable {
    var port = 0
    var credentials = "."
    var count = 100_000
    var tasks = 1000
    var isSequence = false

    init(_ arguments: [String]) {
        var arguments = arguments.dropFirst()[...]
        while let option = arguments.popFirst() {
            switch option {
            case "--port": port = arguments.popFirst().flatMap { Int($0) } ?? 0
            case "--credentials": credentials = arguments.popFirst() ?? "."
            case "--count": count = arguments.popFirst().flatMap { Int($0) } ?? count
            case "--tasks": tasks = arguments.popFirst().flatMap { Int($0) } ?? tasks
            case "--sequence": isSequence = true
            default: fatalError("unknown option \(option)")
            }
        }
    }
}
