import APNSSimulator
import Glibc
import Harness
import Platform
internal import RedisQueue

/// Faults with states (`replaces`) at two daemons. Each token gets many pushes, which the usual accounting would take for
/// duplicates: these rows do their own.
extension Fault {
    static let latestRows = [latest, latestCuts]

    private static let latest = Fault(
        number: 83, name: "latest", title: "states with `replaces` at two daemons, one killed again and again", rule: .survival,
        isQuick: true
    ) { try sendStates($0, among: [.kill]) }

    private static let latestCuts = Fault(
        number: 83, name: "latest-cuts", title: "states with `replaces` at two daemons, connections and Redis fail",
        rule: .survival,
        isQuick: true, longTurn: "a stop of the process may fall into a turn"
    ) { trial in
        try sendStates(
            trial,
            among: [
                .redisCut, .apnsCut, .goAway, .redisFreeze, .daemonFreeze, .flush, .kill, .staleFailover, .redisCut, .apnsCut,
            ])
    }

    private enum Break {
        case kill, redisCut, apnsCut, goAway
        /// Longer than the lease.
        case redisFreeze, daemonFreeze
        /// Redis loses data.
        case flush, staleFailover
    }

    private static func sendStates(_ trial: Trial, among breaks: [Break]) throws {
        let (scopes, turns) = (trial.jobs(10_000), max(trial.times(20), breaks.count))
        let pair = breaks.contains(.staleFailover) ? try RedisPair(seed: trial.seed) : nil
        try trial.open(
            hosting: Trial.accepting(after: 5...15), remembers: true, on: pair?.master, proxies: breaks.count > 1,
            settings: ["redis_lease": "1", "retry_delays": "[0.1]"])
        var daemons = [try trial.start("daemon0"), try trial.start("daemon1")]
        var states = States(scopes: scopes)
        for turn in 0..<turns {
            let fault = breaks[turn % breaks.count]
            let losesData = fault == .flush || fault == .staleFailover
            if losesData { try states.settle(trial) }
            for _ in 0..<10 { try trial.stage.push((0..<scopes / 10).map { _ in states.next(trial.draw(0...scopes - 1)) }) }
            let victim = trial.draw(0...1)
            try trial.inject {
                switch fault {
                case .kill: daemons[victim] = try trial.killAndRestart(daemons[victim], "daemon\(victim)")
                case .redisCut: trial.redisProxy.cutAll()
                case .apnsCut: trial.serviceProxy.cutAll()
                case .goAway: trial.stage.simulator.goAway()
                case .redisFreeze:
                    let redis = trial.stage.redis.process
                    redis.kill(SIGSTOP)
                    trial.pause(1200...2000)
                    redis.kill(SIGCONT)
                case .daemonFreeze:
                    daemons[victim].process.kill(SIGSTOP)
                    try trial.await("the other daemon takes over") { try trial.status().workers.count == 1 }
                    trial.pause(0...300)
                    daemons[victim].process.kill(SIGCONT)
                case .flush: try states.flush(trial)
                case .staleFailover:
                    guard let pair else { return }
                    try trial.failOverToStale(pair, milliseconds: 5...300) { states.mustSurvive(try trial.statesInRedis()) }
                }
            }
            // A job in three crashes would be sent alone.
            try trial.await("the other daemon takes over its jobs") {
                let status = try trial.status()
                return status.recovered == 0 && status.workers.count == 2
            }
            if losesData { try states.settleAfterLoss(trial) }
        }
        try trial.stage.push((0..<scopes).map { states.next($0) })
        trial.afterwards = { try states.judge(trial, $0) }
    }

    /// The states of each scope that were pushed, and what must become of them. The collapse id of a state is its number: the
    /// simulator remembers it without bodies.
    private struct States {
        /// States that were pushed before Redis lost data, and had not all ended: `first` is the number of the first one. Their
        /// order is not judged: Redis may have an older one again. `kept` is the newest one that had to survive.
        private struct Loss {
            let first: Int
            var last = 0
            var kept = 0

            func contains(_ state: Int) -> Bool { first <= state && state <= last }
        }

        private struct Push {
            let state: Int
            let connection: Int
        }

        private var last: [Int]
        private var losses: [[Loss]]
        /// As of the last time at which Redis had lost data.
        private var (pushedBefore, endedBefore) = (0, 0)
        /// Counted in Redis before it was emptied.
        private var maybeDuplicates = 0
        private var survivors = 0

        init(scopes: Int) { (last, losses) = (.init(repeating: 0, count: scopes), .init(repeating: [], count: scopes)) }

        /// Returns the next state of a scope.
        mutating func next(_ scope: Int) -> String {
            last[scope] += 1
            let names = #""replaces":"state","collapse_id":"\#(last[scope])""#
            return #"{"token":"\#(deviceToken(scope))",\#(names),"data":{"aps":{"alert":"x"}}}"#
        }

        /// Waits until all states have ended, before Redis loses data.
        mutating func settle(_ trial: Trial) throws {
            try trial.awaitDrained("all states have ended", atMost: .seconds(60))
            judgeSum(trial, try trial.status())
            for scope in last.indices { losses[scope].append(Loss(first: last[scope] + 1)) }
        }

        /// Empties Redis. The states that the daemons have in flight must survive.
        mutating func flush(_ trial: Trial) throws {
            let counted = ["HGET", trial.stage.keys.stats, Counter.maybeDuplicate.rawValue]
            let replies = try trial.stage.atOnce([Trial.statesInFlight, counted, ["FLUSHALL"]])
            maybeDuplicates += replies[1].text.flatMap { Int($0) } ?? 0
            mustSurvive(Trial.states(in: replies[0]))
        }

        /// One of these states or a newer one must be accepted.
        mutating func mustSurvive(_ states: [(scope: Int, number: Int)]) {
            survivors += states.count
            for state in states {
                let place = losses[state.scope].count - 1
                losses[state.scope][place].kept = max(losses[state.scope][place].kept, state.number)
            }
        }

        mutating func settleAfterLoss(_ trial: Trial) throws {
            // A daemon puts back the states that it holds between its registration and its next beat.
            for _ in 1...2 {
                let before = try Self.beats(trial)
                try trial.await("both daemons have sent a beat") {
                    try Self.beats(trial).filter { before[$0.key] != $0.value }.count == 2
                }
            }
            try trial.awaitDrained("all states have ended", atMost: .seconds(60))
            for scope in last.indices { losses[scope][losses[scope].count - 1].last = last[scope] }
            (pushedBefore, endedBefore) = (last.reduce(0, +), Self.ended(try trial.status()))
        }

        /// The time of the last beat by worker.
        private static func beats(_ trial: Trial) throws -> [String: String] {
            let command = ["ZRANGE", trial.stage.keys.workers, "0", "-1", "WITHSCORES"]
            let words = try trial.stage.command(command).items?.compactMap(\.text) ?? []
            return Dictionary(uniqueKeysWithValues: stride(from: 1, to: words.count, by: 2).map { (words[$0 - 1], words[$0]) })
        }

        private static func ended(_ status: QueueStatus) -> Int {
            status.counter(.sent) + status.counter(.superseded) + status.counter(.dead) + status.counter(.expired)
        }

        private func judgeSum(_ trial: Trial, _ status: QueueStatus) {
            let (pushed, ended) = (last.reduce(0, +) - pushedBefore, Self.ended(status) - endedBefore)
            let dead = status.counter(.dead) + status.counter(.expired)
            if ended != pushed || dead > 0 { trial.fail("\(pushed) states were pushed, and \(ended) ended, \(dead) dead") }
        }

        func judge(_ trial: Trial, _ status: QueueStatus) throws {
            judgeSum(trial, status)
            var (accepted, extra, late) = (0, 0, 0)
            let all = last.indices.map { scope in
                trial.stage.simulator.ledger.requests(for: deviceToken(scope)).compactMap { entry -> Push? in
                    guard entry.verdict.isAccepted else { return nil }
                    return entry.collapseID.flatMap { Int($0) }.map { Push(state: $0, connection: entry.connection) }
                }
            }
            let living = Set(all.compactMap(\.last?.connection))
            for scope in last.indices {
                // The server may read a request after its connection broke, and after a newer one by another connection.
                let inTime = all[scope].enumerated().filter { place, push in
                    living.contains(push.connection) || losses[scope].contains { $0.contains(push.state) }
                        || !all[scope][..<place].contains { $0.state > push.state && $0.connection > push.connection }
                }
                let states = inTime.map(\.element.state)
                late += all[scope].count - states.count
                (accepted, extra) = (accepted + all[scope].count, extra + states.count - Set(states).count)
                let places = states.map { state in losses[scope].first { $0.contains(state) }?.first ?? state }
                if places != places.sorted() || states.last != last[scope] {
                    trial.fail("scope \(scope) has \(states) of \(last[scope]), Redis lost data at \(losses[scope])")
                }
                for loss in losses[scope] where loss.kept > 0 {
                    if states.contains(where: { $0 >= loss.kept && loss.contains($0) }) { continue }
                    trial.fail("scope \(scope) has \(states) and lost \(loss.kept) of \(loss)")
                }
            }
            if late > maybeDuplicates + status.counter(.maybeDuplicate) { trial.fail("\(late) states came after newer ones") }
            if extra > maybeDuplicates + status.counter(.maybeDuplicate) { trial.fail("\(extra) states were accepted twice") }
            if status.unexplained != 0 { trial.fail("\(status.unexplained) claimed jobs that no counter explains") }
            if !losses[0].isEmpty && survivors == 0 {
                trial.fail("Redis or a daemon never had a state: the fault was not tested")
            }
            trial.note("\(last.reduce(0, +)) states, \(accepted) accepted, \(extra) twice, \(late) late")
        }
    }
}

extension Trial {
    /// The commands reply `<token> <number>` for each state that a daemon certainly has in flight, or that Redis has.
    fileprivate static let statesInFlight = [
        "EVAL",
        heldJobsInLua + """
            local out = {}
            for i, job in ipairs(held('*gapless:chunks:*', {}, true)) do
              out[i] = string.gsub(job, '^.*"token":"(%x+)".*"collapse_id":"(%d+)".*$', '%1 %2')
            end
            return out
            """, "0",
    ]

    private static let allStates = [
        "EVAL",
        heldJobsInLua + """
            local jobs, out = held('*gapless:chunks:*', {}), {}
            local commands = {list = {'LRANGE', 0, -1}, zset = {'ZRANGE', 0, -1}, hash = {'HVALS'}}
            for _, key in ipairs(redis.call('KEYS', '*')) do
              local command = commands[redis.call('TYPE', key).ok]
              if command and not string.find(key, ':chunks:', 1, true) then
                for _, job in ipairs(redis.call(command[1], key, unpack(command, 2))) do jobs[#jobs + 1] = job end
              end
            end
            for _, job in ipairs(jobs) do
              local token, number = string.match(job, '"token":"(%x+)".*"collapse_id":"(%d+)"')
              if token then out[#out + 1] = token .. ' ' .. number end
            end
            return out
            """, "0",
    ]

    fileprivate static func states(in reply: RedisReply) -> [(scope: Int, number: Int)] {
        (reply.items ?? []).compactMap(\.text).compactMap { text in
            let words = text.split(separator: " ")
            guard words.count == 2, let scope = Int(words[0].suffix(16), radix: 16), let number = Int(words[1]) else {
                return nil
            }
            return (scope, number)
        }
    }

    fileprivate func statesInRedis() throws -> [(scope: Int, number: Int)] {
        Trial.states(in: try stage.command(Trial.allStates))
    }
}
