/// The constant beginning of a script's call: the hash, the keys and the first arguments.
struct PreparedScript {
    private let text: String
    private let hash: Arguments
    private let keys: Arguments
    private let arguments: Arguments
    /// A whole call without further keys: EVALSHA, the hash, the keys and the first arguments.
    private var whole: Arguments
    /// The part of the last call with further keys that stands before them, and their number.
    private var head = Arguments()
    private var furtherKeys = 0
    /// Whether the text was sent to the server, also with other keys.
    var isLoaded = false

    /// - Parameter arguments: the first arguments of every call.
    init(_ script: Script, keys: [String], arguments: [String] = []) {
        text = script.text
        self.keys = Arguments(keys)
        self.arguments = Arguments(arguments)
        hash = Arguments(["EVALSHA", script.sha])
        whole = hash
        whole.append(keys.count)
        whole.append(contentsOf: self.keys)
        whole.append(contentsOf: self.arguments)
    }

    /// Writes the beginning of a call. Exactly `count` more arguments complete it.
    mutating func begin(with count: Int, to out: inout [UInt8]) {
        if !isLoaded { return begin(with: count, lists: [], of: [], to: &out) }
        out.appendCommandHead(of: whole.count + count)
        out.append(contentsOf: whole.bytes)
    }

    /// Writes the beginning of a call that has more keys: `name` with each of these numbers, and others.
    mutating func begin(
        with count: Int, lists numbers: [UInt64], of name: [UInt8], others: [String] = [], to out: inout [UInt8]
    ) {
        let further = numbers.count + others.count
        if isLoaded && further == 0 { return begin(with: count, to: &out) }
        out.appendCommandHead(of: whole.count + further + count)
        if isLoaded {
            if further != furtherKeys { prepareHead(further) }
            out.append(contentsOf: head.bytes)
        } else {
            isLoaded = true
            out.appendArgument("EVAL")
            out.appendArgument(text)
            out.appendArgument(keys.count + further)
            out.append(contentsOf: keys.bytes)
        }
        for number in numbers { out.appendArgument(name, number) }
        for key in others { out.appendArgument(key) }
        out.append(contentsOf: arguments.bytes)
    }

    /// The number of lists changes rarely from call to call.
    private mutating func prepareHead(_ further: Int) {
        furtherKeys = further
        head = hash
        head.append(keys.count + further)
        head.append(contentsOf: keys)
    }

    /// Writes a whole call.
    mutating func write(_ rest: Arguments, to out: inout [UInt8]) {
        begin(with: rest.count, to: &out)
        out.append(contentsOf: rest.bytes)
    }
}
