import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd cancel")
struct CancelCallTests {
    private func mixed(_ count: Int) -> [String] {
        (0..<count).map { CallStage.job("a\($0)", marks: $0 % 3 == 0 ? #","identifier":7"# : "") }
    }

    @Test func `cancels waiting, delayed and recovered jobs, and --undo restores every byte`() throws {
        let stage = try CallStage()
        let keys = stage.keys
        let jobs = mixed(2000)
        _ = try stage.redis(["RPUSH", "calls"] + jobs)
        let delayed = ["w:7|" + CallStage.job("b1", marks: #","identifier":7"#), CallStage.job("b2")]
        for (place, job) in delayed.enumerated() { try stage.redis("ZADD", keys.delayed, "400000000000\(place).5", job) }
        try stage.redis("RPUSH", keys.recovered[2], CallStage.job("c1", marks: #","identifier":7"#))
        try stage.redis("ZADD", keys.workers, "1", "w")
        try stage.redis("HSET", keys.inflight("w"), "1", CallStage.job("d1", marks: #","identifier":7"#))
        let scores = try stage.redis("ZRANGE", keys.delayed, "0", "-1", "WITHSCORES")
        let result = try stage.call("cancel", "--identifier", "7")
        #expect(result.status == 0)
        #expect(result.lines == ["669 jobs to cancel; in flight and left alone: 1", "669 cancelled"])
        #expect(try stage.elements("calls") == jobs.filter { !$0.contains("identifier") })
        #expect(try stage.redis("ZRANGE", keys.delayed, "0", "-1").items?.compactMap(\.text) == [delayed[1]])
        let status = try JSONValue.parse(Array(stage.call("status", "--json").output.utf8))
        #expect(status["cancelled"]?.integerValue == 669)
        #expect(try stage.call("audit").output.contains("669"))
        let undo = try stage.call("cancel", "--undo", "--json")
        #expect(undo.lines == [#"{"matched": 669, "changed": 669, "in_flight": 0, "complete": true}"#])
        let kept = jobs.filter { !$0.contains("identifier") }
        let restored = try stage.elements("calls")
        #expect(Array(restored[..<kept.count]) == kept)
        #expect(restored.count == 2001 && Set(restored).isSuperset(of: jobs))
        #expect(restored.suffix(667) == jobs.filter { $0.contains("identifier") }.suffix(667))
        #expect(try stage.redis("ZRANGE", keys.delayed, "0", "-1", "WITHSCORES") == scores)
        #expect(try stage.elements(keys.cancelled) == [])
    }

    @Test func `--undo restores the jobs of an earlier cancel in front of those of a later one`() throws {
        let stage = try CallStage()
        let jobs = (0..<6).map { number in (0..<150).map { CallStage.job("a\(number)", marks: #","trace":"\#($0)""#) } }
        for number in 0..<6 {
            _ = try stage.redis(["RPUSH", "calls"] + jobs[number])
            if number > 0 { #expect(try stage.call("cancel", "--token", "a\(number)").lines.last == "150 cancelled") }
        }
        #expect(try stage.call("cancel", "--undo", "--token", "a4").lines.last == "150 restored")
        #expect(try stage.elements("calls") == jobs[0] + jobs[4])
        #expect(try stage.call("cancel", "--undo").lines.last == "600 restored")
        #expect(try stage.elements("calls") == [0, 4, 1, 2, 3, 5].flatMap { jobs[$0] })
        #expect(try stage.elements(stage.keys.cancelled) == [])
    }

    @Test func `--undo restores jobs that returned during the cancel behind the others`() throws {
        let stage = try CallStage()
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let jobs = (0..<4).map { CallStage.job("a\($0)", marks: #","identifier":7"#) }
        let others = (0..<5).map { CallStage.job("b\($0)") }
        _ = try stage.redis(["RPUSH", "calls"] + jobs[..<2] + others)
        let walk = CancelWalk(stage.keys, JobSelection(identifier: "7"), now: 1)
        var hasReturned = false
        #expect(
            try walk.cancel(&client) { _ in
                if !hasReturned { _ = try? stage.redis(["RPUSH", "calls"] + jobs[2...]) }
                hasReturned = true
            })
        #expect(try stage.elements("calls") == others)
        try walk.restore(&client) { _ in }
        #expect(try stage.elements("calls") == others + jobs)
    }

    @Test func `selects by token, app and topic, and needs a condition`() throws {
        let stage = try CallStage()
        let jobs = [#"{"tokens":["aa","BB"],"data":{}}"#, #"{"token":"cc","topic":"t","data":{}}"#, "no JSON"]
        _ = try stage.redis(["RPUSH", "calls"] + jobs)
        #expect(try stage.call("cancel").status == 64)
        #expect(try stage.call("cancel", "--app", "unknown").status == 64)
        #expect(try stage.call("cancel", "--token", "bb").lines.last == "1 cancelled")
        #expect(try stage.call("cancel", "--topic", "t", "--token", "dd").lines.last == "0 cancelled")
        #expect(try stage.call("cancel", "--topic", "t").lines.last == "1 cancelled")
        #expect(try stage.elements("calls") == ["no JSON"])
        #expect(try stage.call("cancel", "--undo", "--token", "BB").lines.last == "1 restored")
        #expect(try stage.elements("calls") == ["no JSON", #"{"tokens":["aa","BB"],"data":{}}"#])
        #expect(try stage.elements(stage.keys.cancelled).count == 1)
    }

    @Test func `jobs that are claimed and pushed during the call are neither lost nor doubled`() throws {
        let stage = try CallStage()
        let jobs = mixed(3000)
        _ = try stage.redis(["RPUSH", "calls"] + jobs)
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let cancelled = CancelledJobs(stage.keys)
        var (claimed, pushed, read, refused) = ([String](), 0, 0, 0)
        while true {
            let page = try cancelled.page(of: .waiting, skipping: read, &client)
            if page.isEmpty { break }
            claimed += try stage.redis("LPOP", "calls", "20").items?.compactMap(\.text) ?? []
            try stage.redis("RPUSH", "calls", CallStage.job("b\(pushed)"))
            pushed += 1
            var moves: [CancelledJobs.Move] = []
            var seen = 0
            for entry in page where moves.count < 50 {
                seen += 1
                guard String(decoding: entry.element, as: UTF8.self).contains("identifier") else { continue }
                let record = CancelledRecord(entry, at: 1).bytes()
                moves.append(.init(fromTail: read + seen, element: entry.element, record: record))
            }
            if try cancelled.cancel(moves, from: .waiting, &client) { read += seen - moves.count } else { refused += 1 }
        }
        let gone = try stage.elements(stage.keys.cancelled).compactMap { CancelledRecord(Array($0.utf8)) }
        let left = try stage.elements("calls")
        let all = claimed + left + gone.map { String(decoding: $0.job, as: UTF8.self) }
        #expect(all.sorted() == (jobs + (0..<pushed).map { CallStage.job("b\($0)") }).sorted())
        #expect(!left.contains { $0.contains("identifier") } && gone.count > 500)
    }

    @Test func `jobs that return to the tail during the call are cancelled too, unless they never end`() throws {
        let stage = try CallStage()
        let jobs = mixed(300)
        _ = try stage.redis(["RPUSH", "calls"] + jobs)
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let walk = CancelWalk(stage.keys, JobSelection(identifier: "7"), now: 1)
        var (changed, returning) = (0, 1)
        func returnOne() { _ = try? stage.redis("RPUSH", "calls", CallStage.job("back", marks: #","identifier":7"#)) }
        let isComplete = try walk.cancel(&client) { count in
            changed += count
            if returning > 0 { returnOne() }
            returning -= 1
        }
        #expect(isComplete && changed == 101)
        #expect(try stage.elements("calls") == jobs.filter { !$0.contains("identifier") })
        returnOne()
        #expect(try !walk.cancel(&client) { _ in returnOne() })
    }

    @Test func `--limit cancels the newest, and restores the oldest first`() throws {
        let stage = try CallStage()
        let jobs = (0..<300).map { CallStage.job("a1", marks: #","trace":"\#($0)""#) }
        _ = try stage.redis(["RPUSH", "calls"] + jobs)
        let cancelled = try stage.call("cancel", "--token", "a1", "--limit", "120", "--json")
        #expect(cancelled.lines == [#"{"matched": 120, "changed": 120, "in_flight": 0, "complete": true}"#])
        #expect(try stage.elements("calls") == Array(jobs[..<180]))
        #expect(try stage.call("cancel", "--token", "a1", "--limit", "30").lines.last == "30 cancelled")
        let undo = try stage.call("cancel", "--undo", "--limit", "50")
        #expect(undo.lines == ["50 jobs to restore", "50 restored"])
        #expect(try stage.elements("calls") == Array(jobs[..<150] + jobs[180..<230]))
        #expect(try stage.call("cancel", "--undo").lines.last == "100 restored")
        #expect(try stage.elements("calls") == Array(jobs[..<150] + jobs[180...] + jobs[150..<180]))
        #expect(try stage.call("cancel", "--undo", "--limit", "0").status == 64)
    }

    @Test func `--undo of one of several cancels touches only the ends of the lists`() throws {
        let stage = try CallStage()
        for token in ["a", "b", "c"] {
            _ = try stage.redis(["RPUSH", "calls"] + (0..<250).map { CallStage.job(token, marks: #","trace":"\#($0)""#) })
            #expect(try stage.call("cancel", "--token", token).lines.last == "250 cancelled")
        }
        let before = try stage.elements(stage.keys.cancelled)
        try stage.redis("CONFIG", "RESETSTAT")
        #expect(try stage.call("cancel", "--undo", "--token", "b").lines.last == "250 restored")
        #expect(try stage.elements("calls") == (0..<250).map { CallStage.job("b", marks: #","trace":"\#($0)""#) })
        #expect(try stage.elements(stage.keys.cancelled) == Array(before[..<250] + before[500...]))
        #expect(try stage.elements(stage.keys.cancelledPassed) == [])
        let commands = try stage.redis("INFO", "commandstats").text ?? ""
        for name in ["lindex", "lset", "lrem"] { #expect(!commands.contains("cmdstat_\(name):"), "\(name)") }
    }

    @Test func `--undo puts back the records that an interrupted one has passed`() throws {
        let stage = try CallStage()
        _ = try stage.redis(["RPUSH", "calls"] + (0..<4).map { CallStage.job("a\($0)", marks: #","identifier":7"#) })
        #expect(try stage.call("cancel", "--identifier", "7").status == 0)
        for _ in 0..<3 { try stage.redis("LMOVE", stage.keys.cancelled, stage.keys.cancelledPassed, "LEFT", "RIGHT") }
        #expect(try stage.call("status", "--json").output.contains(#""cancelled": 4"#))
        #expect(try stage.call("cancel", "--undo").lines == ["4 jobs to restore", "4 restored"])
        #expect(try stage.elements("calls") == (0..<4).map { CallStage.job("a\($0)", marks: #","identifier":7"#) })
    }

    @Test func `the list is paused while the call searches it, and as before afterwards`() throws {
        let stage = try CallStage()
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let pauses = PauseList(stage.keys)
        var search = PauseList.SearchPause(stage.keys, details: Array(#", "reason": "x""#.utf8))
        try search.renew(&client)
        var inForce = try pauses.read(&client)
        #expect(inForce.count == 1 && inForce[0].isOfList)
        #expect(inForce[0].left.map { .zero < $0 && $0 <= PauseList.SearchPause.span } == true)
        try search.end(&client)
        #expect(try pauses.read(&client) == [])
        // A pause without an end stays as it is.
        _ = try pauses.pause(.list, for: nil, details: [], &client)
        inForce = try pauses.read(&client)
        try search.renew(&client)
        try search.end(&client)
        #expect(try pauses.read(&client) == inForce)
        // A short pause is extended, and then in force again.
        _ = try pauses.pause(.list, for: .seconds(20), details: Array(#", "reason": "y""#.utf8), &client)
        let short = try pauses.read(&client).map(\.record)
        var second = PauseList.SearchPause(stage.keys, details: [])
        try second.renew(&client)
        #expect(try pauses.read(&client).map(\.record) != short)
        try second.end(&client)
        #expect(try pauses.read(&client).map(\.record) == short)
        #expect(try pauses.resume(.list, &client))
        _ = try stage.redis(["RPUSH", "calls"] + mixed(100))
        #expect(try stage.call("cancel", "--identifier", "7").status == 0)
        #expect(try pauses.read(&client) == [])
    }

    @Test(arguments: [WaitingJobs.Source.waiting, .delayed])
    func `large jobs are read, cancelled and restored in steps of a few megabytes`(source: WaitingJobs.Source) throws {
        let stage = try CallStage()
        let text = String(repeating: "x", count: 512 << 10)
        for number in 0..<40 {
            let job = CallStage.job("a\(number)", marks: #","identifier":7,"text":"\#(text)""#)
            let head = source == .waiting ? ["RPUSH", "calls"] : ["ZADD", stage.keys.delayed, "4000000000\(100 + number)"]
            _ = try stage.redis(head + [job])
        }
        func memory(_ name: String) throws -> Int {
            let lines = try stage.redis("INFO", "memory").text?.split(whereSeparator: \.isNewline) ?? []
            return try #require(lines.first { $0.hasPrefix("\(name):") }?.split(separator: ":").last.flatMap { Int($0) })
        }
        let before = try memory("used_memory")
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let walk = CancelWalk(stage.keys, JobSelection(identifier: "7"), now: 1)
        var (cancelled, restored) = (0, 0)
        #expect(try walk.cancel(&client) { cancelled += $0 })
        try walk.restore(&client) { restored += $0 }
        #expect(cancelled == 40 && restored == 40)
        #expect(try memory("used_memory_peak") - before < 12 << 20)
    }

    @Test func `jobs are found behind others that were pushed since, unless these are many or large`() throws {
        let stage = try CallStage()
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let moves = (1...10).map { place in
            CancelledJobs.Move(fromTail: place, element: Array("m\(50 - place)".utf8), record: Array("r".utf8))
        }
        func isFound(behind pushed: [String]) throws -> Bool {
            try stage.redis("DEL", "calls")
            _ = try stage.redis(["RPUSH", "calls"] + (0..<50).map { "m\($0)" })
            for job in pushed { try stage.redis("RPUSH", "calls", job) }
            let isFound = try CancelledJobs(stage.keys).cancel(moves, from: .waiting, &client)
            #expect(try stage.elements("calls") == (0..<(isFound ? 40 : 50)).map { "m\($0)" } + pushed)
            return isFound
        }
        let large = String(repeating: "x", count: 1 << 20)
        #expect(try isFound(behind: []))
        #expect(try isFound(behind: [large]))
        #expect(try isFound(behind: (0..<1000).map { "n\($0)" }))
        #expect(try !isFound(behind: (0..<1001).map { "n\($0)" }))
        #expect(try !isFound(behind: Array(repeating: large, count: 4)))
    }

    @Test func `a long list is swept from its head, and --undo keeps the order`() throws {
        let stage = try CallStage()
        let jobs = (0..<10_500).map { CallStage.job("a\($0)", marks: $0 % 4 == 0 ? #","campaign":"sale""# : "") }
        for start in stride(from: 0, to: jobs.count, by: 2100) {
            _ = try stage.redis(["RPUSH", "calls"] + jobs[start..<start + 2100])
        }
        let (selected, others) = (jobs.filter { $0.contains("sale") }, jobs.filter { !$0.contains("sale") })
        #expect(try stage.call("cancel", "--campaign", "sale", "--yes").lines == ["2,625 jobs to cancel", "2,625 cancelled"])
        #expect(try stage.elements("calls") == others)
        #expect(try stage.redis("EXISTS", stage.keys.asides, stage.keys.aside(Keys.sweptName)).integer == 0)
        #expect(try stage.call("cancel", "--undo", "--campaign", "sale").lines.last == "2,625 restored")
        #expect(try stage.elements("calls") == others + selected)
    }

    @Test func `cancelled tokens and retries of a campaign count in its figures, and restored ones again`() throws {
        let stage = try CallStage()
        let keys = stage.keys
        _ = try stage.redis(["RPUSH", keys.audience("c")] + (0..<5).map { "0\($0)" })
        _ = try stage.redis(["RPUSH", "calls"] + (0..<3).map { "campaign:c\n1\($0)" } + [CallStage.job("a1")])
        try stage.redis("ZADD", keys.delayed, "4000000000000", "w:1|" + CallStage.job("20", marks: #","campaign":"c""#))
        try stage.redis(
            "HSET", keys.campaign("c"), "kind", "list", "audience", "9", "left", "8", "created", "1795218609000")
        try stage.redis("ZADD", keys.campaigns, "1795218609000", "c")
        func figures() throws -> [String?] {
            let shown = try JSONValue.parse(Array(stage.call("campaign", "show", "c", "--json").output.utf8))
            return [shown.text("state")] + ["cancelled", "remaining"].map { shown.number($0).map { "\($0)" } }
        }
        #expect(try stage.call("cancel", "--campaign", "c", "--yes").lines.last == "9 cancelled")
        #expect(try figures() == ["ended", "9", "0"])
        #expect(try stage.call("cancel", "--undo", "--campaign", "c", "--limit", "7").lines.last == "7 restored")
        #expect(try figures() == ["running", "2", "7"])
        #expect(try stage.call("cancel", "--undo").lines.last == "2 restored")
        #expect(try figures() == ["running", "0", "9"])
        #expect(try stage.redis("HGET", keys.campaign("c"), "left").text == "8")
    }

    @Test func `the jobs that an interrupted cancel has taken away are searched and put back by the next one`() throws {
        let stage = try CallStage()
        let jobs = (0..<4).map { CallStage.job("a\($0)", marks: #","campaign":"c\#($0 % 2)""#) }
        _ = try stage.redis(["RPUSH", "calls"] + jobs)
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let cancelled = CancelledJobs(stage.keys)
        let page = jobs[..<3].map { Array($0.utf8) }
        #expect(try cancelled.sweep(page[...], [(1, Array("record".utf8))], from: .waiting, &client))
        #expect(try !cancelled.sweep(page[...], [], from: .waiting, &client), "the list begins with another job")
        #expect(try stage.elements("calls") == [jobs[3]])
        #expect(try stage.elements(stage.keys.aside(Keys.sweptName)) == [jobs[0], jobs[2]])
        #expect(try stage.redis("HGET", stage.keys.asides, Keys.sweptName).text == "2")
        #expect(try stage.call("cancel", "--campaign", "c0", "--yes").lines.last == "2 cancelled")
        #expect(try stage.elements("calls") == [jobs[3]])
    }

    @Test func `a list that has become shorter than the place changes nothing`() throws {
        let stage = try CallStage()
        _ = try stage.redis(["RPUSH", "calls"] + Array(repeating: "m", count: 80))
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let move = CancelledJobs.Move(fromTail: 101, element: Array("m".utf8), record: Array("r".utf8))
        #expect(try !CancelledJobs(stage.keys).cancel([move], from: .waiting, &client))
        #expect(try stage.elements("calls").count == 80 && stage.elements(stage.keys.cancelled) == [])
    }

    @Test func `a job that is not at its place is not cancelled`() throws {
        let stage = try CallStage()
        _ = try stage.redis(["RPUSH", "calls", "a", "b"])
        var client = try RedisClient(settings: QueueSettings(list: "calls", server: .unix(path: stage.redis.socketPath)))
        let move = CancelledJobs.Move(fromTail: 1, element: Array("a".utf8), record: Array("r".utf8))
        let other = CancelledJobs.Move(fromTail: 2, element: Array("b".utf8), record: Array("r".utf8))
        #expect(try !CancelledJobs(stage.keys).cancel([move, other], from: .waiting, &client))
        #expect(try stage.elements("calls") == ["a", "b"] && stage.elements(stage.keys.cancelled) == [])
    }
}
