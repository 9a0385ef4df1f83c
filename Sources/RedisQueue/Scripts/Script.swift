internal import Platform

/// A Lua script and its name for EVALSHA.
///
/// The text names its keys and arguments, and each name becomes a position when the script is made: `KEYS.stats` is `KEYS[5]`,
/// and `KEY.stats` the number 5; `ARGV.count` and `ARG.count` are the same for an argument. The keys come in the order of `keys`,
/// followed by those that differ from call to call. The arguments come in the order of the enum `Argument` of the script, from
/// which the call is written, too. A name that is not declared traps.
///
/// All scripts keep these rules:
///
/// - They move bytes and never parse a job: cjson would turn 9007199254740993 into 9.007e15. Lua hashes every byte of a job that
///   it sees, so the path of nearly all jobs shows it none: Redis copies them from list to list.
/// - The list of a chunk is at the key of the worker's chunks, followed by a colon and its number. See `Keys.chunks`.
/// - A step that may fail (a wrong type at a key, a right that the user lacks) is tried before the first effect, and a job is
///   added at its new place before it is removed from the old one: Redis does not roll back, and half a script must never lose a
///   job. A script that failed can be called again any number of times: no effect is repeated.
/// - Every key that a script touches is among KEYS, also the lists of chunks: Redis checks the rights to all of them first.
/// - The first write is a DEL of a key that exists only during a script, or a removal. After it Redis lets a script finish even
///   when it is out of memory. It refuses a first HSET or LPUSH (`script_oom` in the Redis source).
/// - A worker's call names the worker and its connection number, with a random fraction. The reply is `FENCED` when the worker
///   is not registered, and `STALE` when the number is not the current one: the call was in the buffer of a former connection,
///   or another process has the name of this worker.
/// - Counters come last, through `pcall`: a counter that is not a number must not undo the other steps.
package struct Script: Sendable, Equatable {
    /// A key that is the same in all calls of a worker. `once`, `twice` and `thrice` are the lists of recovered jobs.
    enum Key: String {
        case nothing, workers, worker, chunks, stats, once, twice, thrice, list, delayed, dead, feedback, results, large, paused,
            holders, asides, slots, states, waiting, paced
    }

    /// The arguments of a worker's call that stand before all others.
    private static let identity = ["worker", "number"]

    package let text: String
    package let sha: String
    let keys: [Key]

    /// - Parameters:
    ///   - more: the keys that the call adds. The last one may stand for several.
    ///   - isFenced: whether it is a call of a registered worker. The text then includes `Lua.fence`.
    init(_ keys: [Key], more: [String] = [], arguments: [String] = [], isFenced: Bool = true, _ text: String) {
        self.keys = keys
        let arguments = (isFenced ? Script.identity : []) + arguments
        self.text = Script.placed(text, keys: keys.map(\.rawValue) + more, arguments: arguments)
        sha = SHA1.hexadecimal(of: self.text)
    }

    package static func == (left: Self, right: Self) -> Bool { left.sha == right.sha }

    /// The scripts at which the fault rows kill a daemon.
    package static var claim: Script { Claim.script }
    package static var settle: Script { SettleBatch.script }
    package static var unregister: Script { Unregistration.script }

    /// Returns the text with positions in place of names.
    static func placed(_ text: String, keys: [String], arguments: [String]) -> String {
        var placed = text
        for (table, number, names) in [("KEYS.", "KEY.", keys), ("ARGV.", "ARG.", arguments)] {
            placed = placed.replacing(table, names, with: { "\(table.dropLast())[\($0)]" })
            placed = placed.replacing(number, names, with: { "\($0)" })
        }
        return placed
    }
}

extension String {
    fileprivate func replacing(_ mark: String, _ names: [String], with place: (Int) -> String) -> String {
        let parts = split(separator: mark, omittingEmptySubsequences: false)
        var text = String(parts[0])
        for part in parts.dropFirst() {
            let name = part.prefix { $0.isLetter }
            guard let index = names.firstIndex(of: String(name)) else { preconditionFailure("a script names \(mark)\(name)") }
            text += place(index + 1) + part[name.endIndex...]
        }
        return text
    }
}

/// The keys of one worker, by their names in scripts.
struct ScriptKeys {
    private let keys: Keys
    private let worker: String
    /// The stream of results; `nil` without one.
    var results: String?
    /// The app whose side list takes the place of the list. Its calls see no recovered jobs.
    var aside: String?

    init(_ keys: Keys, worker: String, results: String? = nil) {
        (self.keys, self.worker, self.results) = (keys, worker, results)
    }

    subscript(_ key: Script.Key) -> String {
        switch key {
        case .nothing: keys.nothing
        case .workers: keys.workers
        case .worker: keys.worker(worker)
        case .chunks: keys.chunks(worker)
        case .stats: keys.stats
        case .once: aside == nil ? keys.recovered[0] : keys.nothing
        case .twice: aside == nil ? keys.recovered[1] : keys.nothing
        case .thrice: aside == nil ? keys.recovered[2] : keys.nothing
        case .list: aside.map(keys.aside) ?? keys.list
        case .delayed: keys.delayed
        case .dead: keys.dead
        case .feedback: keys.feedback
        case .results: results ?? keys.nothing
        case .large: keys.large
        case .paused: keys.paused
        case .holders: keys.holders
        case .asides: keys.asides
        case .slots: keys.slots
        case .states: keys.states
        case .waiting: keys.waiting
        case .paced: keys.paced
        }
    }
}

/// The constant beginning of a script's call, up to its keys.
struct PreparedScript {
    private let script: Script
    private let keys: Arguments
    /// EVALSHA, the hash, the number of keys and the constant ones, for a call with this many more keys.
    private var head = Arguments()
    private var moreKeys = -1
    /// Whether the text was sent to the server, also with other keys.
    var isLoaded = false

    init(_ script: Script, _ keys: ScriptKeys) {
        self.script = script
        self.keys = Arguments(script.keys.map { keys[$0] })
    }

    /// Writes the beginning of a call. The given numbers of further keys and arguments complete it.
    mutating func begin(moreKeys more: Int = 0, arguments: Int, to out: inout [UInt8]) {
        out.appendCommandHead(of: 3 + keys.count + more + arguments)
        if isLoaded {
            // The number of keys changes rarely from call to call.
            if more != moreKeys { prepareHead(more) }
            out.append(contentsOf: head.bytes)
        } else {
            isLoaded = true
            out.appendArgument("EVAL")
            out.appendArgument(script.text)
            out.appendArgument(keys.count + more)
            out.append(contentsOf: keys.bytes)
        }
    }

    private mutating func prepareHead(_ more: Int) {
        moreKeys = more
        head = Arguments(["EVALSHA", script.sha])
        head.append(keys.count + more)
        head.append(contentsOf: keys)
    }
}
