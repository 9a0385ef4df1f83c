import Harness

/// The instructions of one run by module and library, counted by callgrind.
struct InstructionCount {
    private var byPart: [Substring: Int] = [:]

    var total: Int { byPart.values.reduce(0, +) }

    /// - Parameter text: the format of callgrind. Names occur once and then as numbers. The line after `calls=` is the cost of
    ///   the called function, which also has its own lines.
    init(callgrind text: String) {
        var objects = Names()
        var functions = Names()
        var (object, function): (Substring, Substring) = ("", "")
        var part: Substring = ""
        var isOfCall = false
        for line in text.split(separator: "\n") {
            if let first = line.utf8.first, (0x30...0x39).contains(first) || first == 0x2B || first == 0x2D || first == 0x2A {
                if !isOfCall, let cost = line.split(separator: " ").last.flatMap({ Int($0) }) { byPart[part, default: 0] += cost }
                isOfCall = false
            } else if line.hasPrefix("calls=") {
                isOfCall = true
            } else if line.hasPrefix("ob=") {
                object = objects.read(line.dropFirst(3))
            } else if line.hasPrefix("fn=") {
                function = functions.read(line.dropFirst(3))
                part = InstructionCount.part(of: function, in: object)
            } else if line.hasPrefix("cob=") {
                _ = objects.read(line.dropFirst(4))
            } else if line.hasPrefix("cfn=") {
                _ = functions.read(line.dropFirst(4))
            }
        }
    }

    /// Names that occur in full the first time, and as numbers later: `(7) memcpy`, `(7)`.
    private struct Names {
        private var known: [Substring: Substring] = [:]

        mutating func read(_ text: Substring) -> Substring {
            let parts = text.split(separator: " ", maxSplits: 1)
            guard parts.count == 2 else { return known[text] ?? "?" }
            known[parts[0]] = parts[1]
            return parts[1]
        }
    }

    /// Returns the library, or the module of gaplessd by the mangled name of the function.
    private static func part(of function: Substring, in object: Substring) -> Substring {
        let file = object.split(separator: "/").last ?? "?"
        guard file == "gaplessd" || file.hasPrefix("libswift") else { return file }
        let modules = ["gaplessd", "PushPool", "RedisQueue", "JSONBytes", "Platform"]
        for module in modules where function.hasPrefix("$s\(module.utf8.count)\(module)") { return Substring(module) }
        return "Swift runtime and standard library"
    }

    /// Formats the cost of the additional jobs by part, the most expensive first.
    func table(beyond less: InstructionCount, jobs: Int) -> String {
        let costs = byPart.map { (name: $0.key, each: Double($0.value - less.byPart[$0.key, default: 0]) / Double(jobs)) }
        return costs.filter { $0.each >= 10 }.sorted { $0.each > $1.each }
            .map { padLeft(decimal($0.each, 0), 8) + "  " + $0.name }.joined(separator: "\n")
    }
}
