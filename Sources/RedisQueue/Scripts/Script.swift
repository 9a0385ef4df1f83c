internal import Platform

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

/// A Lua script and its name for EVALSHA.
package struct Script: Sendable, Equatable {
    package let text: String
    package let sha: String

    init(_ text: String) {
        self.text = text
        sha = SHA1.hexadecimal(of: text)
    }

    package static func == (left: Self, right: Self) -> Bool { left.sha == right.sha }
}

/// The scripts of one worker, with their keys and the worker's name.
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
    /// Claims from side lists, by app.
    private var asideClaims: [String: PreparedScript] = [:]

    init(_ keys: Keys, _ worker: WorkerName, _ settings: QueueSettings) {
        let fence = [keys.nothing, keys.workers, keys.worker(worker.text)]
        let mine = fence + [keys.chunks(worker.text)]
        let queue = keys.recovered + [keys.list]
        let ends = [keys.dead, keys.feedback]
        let results = [settings.resultsKey ?? keys.nothing]
        func guarded(_ script: Script, _ others: [String]) -> PreparedScript {
            PreparedScript(script, keys: mine + others, arguments: [worker.text])
        }
        (self.keys, self.mine, self.worker) = (keys, mine, worker.text)
        let others = [keys.paused, keys.holders]
        register = guarded(Scripts.register, [keys.stats] + queue + [keys.delayed] + ends + results + others + [keys.asides])
        claim = guarded(Scripts.claim, [keys.stats] + queue + [keys.paused])
        settle = guarded(Scripts.settle, [keys.stats, keys.delayed] + ends + [keys.list] + results + [keys.large])
        let watched = keys.recovered + [keys.delayed, keys.paused, keys.holders]
        beat = PreparedScript(
            Scripts.beat, keys: fence + watched + [keys.chunks(worker.text), keys.asides], arguments: [worker.text])
        promote = PreparedScript(Scripts.promote, keys: [keys.nothing, keys.delayed, keys.list])
        adopt = guarded(Scripts.adopt, [keys.stats] + queue)
        merge = PreparedScript(Scripts.merge, keys: [keys.nothing, keys.list] + keys.recovered)
        unregister = guarded(Scripts.unregister, [keys.holders, keys.asides])
    }

    /// Takes jobs from the side list of an app.
    mutating func withAsideClaim(of app: String, _ body: (inout PreparedScript) -> Void) {
        let none = Array(repeating: keys.nothing, count: keys.recovered.count)
        let all = mine + [keys.stats] + none + [keys.aside(app), keys.paused]
        var script = asideClaims[app] ?? PreparedScript(Scripts.claim, keys: all, arguments: [worker])
        if claim.isLoaded { script.isLoaded = true }
        body(&script)
        (claim.isLoaded, asideClaims[app]) = (true, script)
    }

    /// Sent in full, as `take`: both are rare.
    func restore(_ app: String) -> PreparedScript {
        let others = [keys.aside(app), keys.list, keys.asides, keys.holders]
        return PreparedScript(Scripts.restore, keys: Array(mine.dropLast()) + others, arguments: [worker])
    }

    func take(_ app: String) -> PreparedScript {
        PreparedScript(Scripts.take, keys: [keys.nothing, keys.aside(app), keys.asides])
    }

    /// Sent in full: workers rarely die, and each has keys of its own.
    ///
    /// - Parameters:
    ///   - chunk: of this worker, for suspects.
    ///   - lists: the numbers of the chunks of the dead worker.
    func reap(_ dead: String, suspects chunk: UInt64, lists: [String]) -> PreparedScript {
        let theirs = [keys.worker(dead), keys.inflight(dead), keys.chunks(dead), keys.stats]
        let chunks = [keys.chunk(worker, chunk)] + lists.map { "\(keys.chunks(dead)):\($0)" }
        return PreparedScript(
            Scripts.reap, keys: mine + theirs + keys.recovered + [keys.holders] + chunks, arguments: [worker])
    }

    /// Sent in full: it follows a lost connection, or claims a job that is too large.
    func fetch(_ chunk: UInt64) -> PreparedScript { PreparedScript(Scripts.fetch, keys: [keys.chunk(worker, chunk)]) }
}
