/// The scripts of one worker, with their keys and the worker's name.
struct WorkerScripts {
    private let keys: Keys
    private let mine: [String]
    private let worker: String
    private let settleKeys: [String]

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
        settleKeys = mine + [keys.stats, keys.delayed] + ends + [keys.list] + results + [keys.large]
        settle = PreparedScript(Scripts.settle, keys: settleKeys, arguments: [worker.text])
        let watched = keys.recovered + [keys.delayed, keys.paused, keys.holders, keys.asides]
        beat = PreparedScript(Scripts.beat, keys: fence + watched, arguments: [worker.text])
        promote = PreparedScript(Scripts.promote, keys: [keys.nothing, keys.delayed, keys.list])
        adopt = guarded(Scripts.adopt, [keys.stats])
        merge = PreparedScript(Scripts.merge, keys: [keys.nothing, keys.list] + keys.recovered)
        unregister = guarded(Scripts.unregister, [keys.holders])
    }

    /// Takes jobs from the side list of an app.
    mutating func withAsideClaim(of app: String, _ body: (inout PreparedScript) -> Void) {
        let none = Array(repeating: keys.nothing, count: keys.recovered.count)
        let all = mine + [keys.stats] + none + [keys.aside(app), keys.paused, keys.asides]
        var script = asideClaims[app] ?? PreparedScript(Scripts.claim, keys: all, arguments: [worker])
        if claim.isLoaded { script.isLoaded = true }
        body(&script)
        (claim.isLoaded, asideClaims[app]) = (true, script)
    }

    /// Settles jobs of which some go to the side lists of these apps.
    mutating func withSettle(asides apps: [String], _ body: (inout PreparedScript) -> Void) {
        let all = settleKeys + apps.map(keys.aside) + [keys.asides]
        var script = PreparedScript(Scripts.settle, keys: all, arguments: [worker])
        script.isLoaded = settle.isLoaded
        body(&script)
        settle.isLoaded = true
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
    func reap(_ dead: String) -> PreparedScript {
        let theirs = [keys.worker(dead), keys.inflight(dead), keys.chunks(dead), keys.stats]
        return PreparedScript(Scripts.reap, keys: mine + theirs + keys.recovered + [keys.holders], arguments: [worker])
    }

    /// Sent in full: it follows a lost connection, or claims a job that is too large.
    func fetch(_ chunk: UInt64) -> PreparedScript { PreparedScript(Scripts.fetch, keys: [keys.chunk(worker, chunk)]) }
}
