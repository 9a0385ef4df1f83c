/// The call of a script up to what differs from call to call, ready to be sent: the hash, the keys and the first arguments.
struct PreparedScript {
    private let text: String
    /// What follows the text or the hash.
    private let constant: Arguments
    /// The same behind EVALSHA and the hash.
    private let byHash: Arguments
    /// Whether the server has been sent the text.
    private var isLoaded = false

    /// - Parameter arguments: those that every call begins with.
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

    /// Writes the beginning of a call: exactly `count` more arguments complete it.
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

/// The scripts as one worker calls them; keys and arguments as the scripts have them, up to the worker's name.
struct WorkerScripts {
    private let keys: Keys
    private let mine: [String]
    private let worker: String

    var register: PreparedScript
    var claim: PreparedScript
    var settle: PreparedScript
    var beat: PreparedScript
    var promote: PreparedScript
    var adopt: PreparedScript
    var merge: PreparedScript
    var unregister: PreparedScript

    init(_ keys: Keys, _ worker: WorkerName, _ settings: QueueSettings) {
        let fence = [keys.nothing, keys.workers, keys.worker(worker.text)]
        let mine = fence + [keys.inflight(worker.text)]
        let queue = keys.recovered + [keys.list]
        let ends = [keys.dead, keys.feedback]
        let results = [settings.resultsKey ?? keys.nothing]
        func mineToo(_ script: Script, _ others: [String]) -> PreparedScript {
            PreparedScript(script, keys: mine + others, arguments: [worker.text])
        }
        (self.keys, self.mine, self.worker) = (keys, mine, worker.text)
        register = mineToo(Scripts.register, [keys.stats] + queue + [keys.delayed] + ends + results)
        claim = mineToo(Scripts.claim, [keys.stats] + queue)
        settle = mineToo(Scripts.settle, [keys.stats, keys.delayed] + ends + [keys.list] + results)
        beat = PreparedScript(Scripts.beat, keys: fence + keys.recovered + [keys.delayed], arguments: [worker.text])
        promote = PreparedScript(Scripts.promote, keys: [keys.nothing, keys.delayed, keys.list])
        adopt = mineToo(Scripts.adopt, [keys.stats])
        merge = PreparedScript(Scripts.merge, keys: [keys.nothing, keys.list] + keys.recovered)
        unregister = mineToo(Scripts.unregister, [])
    }

    /// Sent in full: workers die seldom, and each has keys of its own.
    func reap(_ dead: String) -> PreparedScript {
        let theirs = [keys.worker(dead), keys.inflight(dead), keys.stats]
        return PreparedScript(Scripts.reap, keys: mine + theirs + keys.recovered, arguments: [worker])
    }
}
