/// The constant beginning of a script's call: the hash, the keys and the first arguments.
struct PreparedScript {
    private let text: String
    /// The arguments behind the text or the hash.
    private let constant: Arguments
    /// The same, with EVALSHA and the hash in front.
    private let byHash: Arguments
    /// Whether the text was sent to the server, also with other keys.
    var isLoaded = false

    /// - Parameter arguments: the first arguments of every call.
    init(_ script: Script, keys: [String], arguments: [String] = []) {
        text = script.text
        var constant = Arguments()
        constant.append(keys.count)
        for text in keys + arguments { constant.append(text) }
        self.constant = constant
        var byHash = Arguments(["EVALSHA", script.sha])
        byHash.append(contentsOf: constant)
        self.byHash = byHash
    }

    /// Writes the beginning of a call. Exactly `count` more arguments complete it.
    mutating func begin(with count: Int, to out: inout [UInt8]) {
        if isLoaded {
            out.appendCommandHead(of: byHash.count + count)
            return out.append(contentsOf: byHash.bytes)
        }
        isLoaded = true
        out.appendCommandHead(of: 2 + constant.count + count)
        out.appendArgument("EVAL")
        out.appendArgument(text)
        out.append(contentsOf: constant.bytes)
    }

    /// Writes a whole call.
    mutating func write(_ rest: Arguments, to out: inout [UInt8]) {
        begin(with: rest.count, to: &out)
        out.append(contentsOf: rest.bytes)
    }
}
