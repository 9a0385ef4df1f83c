import JSONBytes
import Platform
import RedisQueue
import Testing

@testable import gaplessd

private func read(_ text: String) throws -> Job {
    var reader = JobReader(retryLimit: 3, appNames: [])
    return try reader.read(Array(text.utf8))
}

private func string(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

@Suite("A job marked for its resend")
struct JobMarkTests {
    @Test(arguments: [
        (#"{"token":"ab","data":{}}"#, #"{"token":"ab","data":{},"_gapless_RETRYING":1,"_gapless_deadline":99}"#),
        (
            "{\"token\":\"ab\",\"data\":{} \n} ",
            "{\"token\":\"ab\",\"data\":{},\"_gapless_RETRYING\":1,\"_gapless_deadline\":99 \n} "
        ),
        (
            #"{"_gapless_RETRYING" : 0 , "token":"ab","data":{}}"#,
            #"{"_gapless_RETRYING" : 1 , "token":"ab","data":{},"_gapless_deadline":99}"#
        ),
        (
            #"{"_gapless_RETRYING":7,"token":"ab","_gapless_RETRYING":"x","data":{}}"#,
            #"{"_gapless_RETRYING":7,"token":"ab","_gapless_RETRYING":1,"data":{},"_gapless_deadline":99}"#
        ),
        (
            #"{"token":"ab","data":{"_gapless_RETRYING":5},"_gapless_deadline":null}"#,
            #"{"token":"ab","data":{"_gapless_RETRYING":5},"_gapless_deadline":99,"_gapless_RETRYING":1}"#
        ),
        (
            #"{"token":"ab","data":{},"_gapless_\u0052ETRYING":-2}"#,
            #"{"token":"ab","data":{},"_gapless_\u0052ETRYING":1,"_gapless_deadline":99}"#
        ),
    ])
    func `has the marks, and no other byte changes`(before: String, after: String) throws {
        #expect(string(try read(before).markedForRetry(attempts: 1, deadline: 99)) == after)
    }

    @Test func `keeps the doubtful count and the deadline, whatever its retries`() throws {
        let job = try read(#"{"token":"ab","data":{},"_gapless_RETRYING":2}"#)
        let marked = try read(string(job.markedAsDoubtful(3, deadline: 99)))
        #expect(
            string(marked.bytes)
                == #"{"token":"ab","data":{},"_gapless_RETRYING":2,"_gapless_doubtful":3,"_gapless_deadline":99}"#)
        #expect((marked.attempts, marked.doubtful, marked.deadline) == (2, 3, 99))
        #expect(try read(string(marked.markedForRetry(attempts: 3, deadline: nil, doubtful: 5))).doubtful == 5)
        #expect(string(Job.unmarked(marked.bytes)) == #"{"token":"ab","data":{}}"#)
    }

    @Test func `keeps the id of the first response, unless the job has its own`() throws {
        let (first, second) = ("0A0B0C0D-1111-2222-3333-444455556666", "1a0b0c0d-1111-2222-3333-444455556666")
        let job = try read(#"{"token":"ab","data":{}}"#)
        let marked = try read(string(job.markedForRetry(attempts: 1, deadline: nil, apnsID: first)))
        #expect(
            string(marked.bytes) == #"{"token":"ab","data":{},"_gapless_RETRYING":1,"_gapless_apns_id":"\#(first)"}"#)
        #expect(marked.apnsID == first.lowercased())
        #expect(try read(string(marked.markedForRetry(attempts: 2, deadline: nil, apnsID: second))).apnsID == first.lowercased())
        #expect(string(Job.unmarked(marked.bytes)) == #"{"token":"ab","data":{}}"#)
        let own = try read(#"{"token":"ab","data":{},"_gapless_apns_id":"\#(first)","apns_id":"\#(second)"}"#)
        #expect(own.apnsID == second)
        let unmarked = try read(#"{"token":"ab","data":{},"apns_id":"\#(second)"}"#)
        #expect(!string(unmarked.markedForRetry(attempts: 1, deadline: nil, apnsID: first)).contains("_gapless_apns_id"))
    }

    @Test(arguments: [#""no uuid""#, "7", "{}", "null"])
    func `ignores an id of the daemon that is no UUID`(value: String) throws {
        #expect(try read(#"{"token":"ab","data":{},"_gapless_apns_id":\#(value)}"#).apnsID == nil)
        let marked = try read(#"{"token":"ab","data":{}}"#).markedForRetry(attempts: 1, deadline: nil, apnsID: value)
        #expect(string(marked) == #"{"token":"ab","data":{},"_gapless_RETRYING":1}"#)
    }

    @Test(arguments: [("-1", 0), ("11", 10), ("10", 10), ("\"3\"", 0), ("2.5", 0), ("99999999999999999999", 10), ("null", 0)])
    func `clamps an invalid count of doubtful sends to the nearest valid one`(text: String, count: Int) throws {
        #expect(try read("{\"token\":\"ab\",\"data\":{},\"_gapless_doubtful\":\(text)}").doubtful == count)
    }

    @Test func `keeps the deadline if no new one is given`() throws {
        #expect(
            string(try read(#"{"token":"ab","data":{},"_gapless_deadline":5}"#).markedForRetry(attempts: 2, deadline: nil))
                == #"{"token":"ab","data":{},"_gapless_deadline":5,"_gapless_RETRYING":2}"#)
        #expect(
            string(try read(#"{"token":"ab","data":{}}"#).markedForRetry(attempts: 2, deadline: nil))
                == #"{"token":"ab","data":{},"_gapless_RETRYING":2}"#)
    }

    @Test(arguments: [
        (#"{"_gapless_RETRYING":1,"token":"ab","data":{}}"#, #"{"token":"ab","data":{}}"#),
        (#"{ "_gapless_RETRYING":1, "_gapless_deadline":2, "token":"ab","data":{} }"#, #"{ "token":"ab","data":{} }"#),
        (#"{"token":"ab" , "_gapless_deadline":2 , "data":{} ,"_gapless_RETRYING":3 }"#, #"{"token":"ab" , "data":{} }"#),
        (
            #"{"_gapless_deadline":{"a":[1]},"token":"ab","_gapless_deadline":2,"_gapless_\u0052ETRYING":3,"data":{}}"#,
            #"{"token":"ab","data":{}}"#
        ),
        (
            #"{"channel_name":"a","replaces":"x","data":{},"_gapless_rank":7,"_gapless_channel":"eA==","_gapless_RETRYING":1}"#,
            #"{"channel_name":"a","replaces":"x","data":{}}"#
        ),
        (#"{ "_gapless_RETRYING":1 }"#, "{  }"), (#"{"_gapless_RETRYING":1,"_gapless_deadline":1}"#, "{}"), ("{}", "{}"),
        (#"{"_gapless_RETRYING":1"#, #"{"_gapless_RETRYING":1"#), ("[1]", "[1]"), ("", ""),
        (#"{"a":{"_gapless_RETRYING":1}}"#, #"{"a":{"_gapless_RETRYING":1}}"#),
    ])
    func `can be unmarked`(before: String, after: String) {
        #expect(string(Job.unmarked(Array(before.utf8))) == after)
    }

    @Test func `marking and unmarking any job changes no other byte`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("JobMarkTests seed \(seed)")
        var generator = SeededJobs(seed: seed)
        for _ in 0..<2000 {
            let (text, members) = generator.job(target: [#""token":"ab12""#])
            let job = try read(text)
            let marked = try read(string(job.markedForRetry(attempts: 2, deadline: 1234)))
            #expect(marked.attempts == 2 && marked.deadline == 1234, "seed \(seed): \(text)")
            #expect(string(marked.bytes[marked.data]) == string(job.bytes[job.data]), "seed \(seed): \(text)")
            let unmarked = string(Job.unmarked(marked.bytes))
            #expect(rawMembers(of: unmarked) == members.filter { !$0.contains("_gapless_") }, "seed \(seed): \(text)")
            if !text.contains("_gapless_") { #expect(unmarked == text, "seed \(seed)") }
        }
    }
}

@Suite("A job with some of its tokens")
struct JobSplitTests {
    private let job = #"{"identifier":7 , "tokens" : [ "aa","bb" , 5,"dd"] ,"data":{"x":1.0}}"#

    @Test func `has the token in place of the list`() throws {
        #expect(string(try read(job).single(tokenAt: 1)) == #"{"identifier":7 , "token":"bb" ,"data":{"x":1.0}}"#)
        #expect(string(try read(job).single(tokenAt: 2)) == #"{"identifier":7 , "token":5 ,"data":{"x":1.0}}"#)
    }

    @Test func `is marked as a whole`() throws {
        #expect(
            string(try read(job).markedForRetry(attempts: 1, deadline: nil))
                == #"{"identifier":7 , "tokens" : [ "aa","bb" , 5,"dd"] ,"data":{"x":1.0},"_gapless_RETRYING":1}"#)
    }

    @Test func `has a part of the list of tokens`() throws {
        #expect(string(try read(job).chunk(1..<3)) == #"{"identifier":7 , "tokens":["bb" , 5] ,"data":{"x":1.0}}"#)
        #expect(string(try read(job).chunk(0..<4)) == #"{"identifier":7 , "tokens":["aa","bb" , 5,"dd"] ,"data":{"x":1.0}}"#)
    }

    @Test(arguments: [
        (#"{"token":null,"tokens":["aa","bb"],"data":{}}"#, #"{"token":"bb","data":{}}"#),
        (#"{"tokens":["aa","bb"],"token":null,"data":{}}"#, #"{"token":"bb","data":{}}"#),
        (
            #"{"tokens":["cc"], "x":1 , "t\u006fkens":["aa","bb"] , "token" : null , "data":{} }"#,
            #"{"x":1 , "token":"bb" , "data":{} }"#
        ),
        (#"{"data":{},"tokens":null,"tokens":["aa","bb"],"token":"ee","token":null}"#, #"{"data":{},"token":"bb"}"#),
    ])
    func `has no other token beside it`(before: String, after: String) throws {
        #expect(string(try read(before).single(tokenAt: 1)) == after)
    }

    @Test func `has unknown members only if the members besides tokens are not too large`() throws {
        func job(_ count: Int) -> String {
            #"{"x":"\#(String(repeating: "x", count: count))","tokens":["aa","bb"],"y":1,"data":{}}"#
        }
        let most = Job.Frame.mostBytes - #"{"x":"","y":1,"data":{}},,"#.utf8.count
        #expect(string(try read(job(most)).single(tokenAt: 1)).utf8.count > most)
        #expect(string(try read(job(most + 100)).single(tokenAt: 1)) == #"{"token":"bb","data":{}}"#)
    }

    @Test func `is a bad job if the known members besides tokens are too large`() throws {
        let identifier = String(repeating: "x", count: Job.Frame.mostBytes)
        let job = #"{"identifier":"\#(identifier)","tokens":["aa","bb"],"data":{}}"#
        #expect(throws: JobError.self) { try read(job) }
    }

    @Test func `has either the bad or the good tokens if many are bad`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("JobSplitTests seed \(seed)")
        var generator = SeededJobs(seed: seed)
        let bad = (0..<11).map { ["5", "null", #""zz""#, #""""#, #"{"a":[1]}"#][$0 % 5] }
        for _ in 0..<300 {
            var tokens = bad + Array(repeating: #""\u0061b""#, count: 3)
            for index in tokens.indices { tokens.swapAt(index, generator.below(tokens.count)) }
            let (text, _) = generator.job(target: [#""tokens": [ \#(tokens.joined(separator: " , "))]"#, #""token":null"#])
            let job = try read(text)
            let parts = try #require(job.split(into: 5, bytes: 1000)?.parts.parts(of: job.bytes).map(string))
            func rest(_ kept: (String) -> Bool) -> String {
                text.replacing(tokens.joined(separator: " , "), with: tokens.filter(kept).joined(separator: ","))
            }
            #expect(parts == [rest(bad.contains), rest { !bad.contains($0) }], "seed \(seed): \(text)")
            #expect(throws: JobError.self, "seed \(seed): \(text)") { try read(parts[0]) }
            #expect(try read(parts[1]).tokens.allSatisfy { $0.fault == nil }, "seed \(seed): \(text)")
        }
    }

    @Test func `is itself where it has one token only`() throws {
        let one = #"{"token":"ab","tokens":null,"data":{}}"#
        #expect(string(try read(one).single(tokenAt: 0)) == one)
        #expect(string(try read(one).chunk(0..<1)) == one)
    }

    @Test func `the parts of any job are jobs with the same payload`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("JobSplitTests seed \(seed)")
        var generator = SeededJobs(seed: seed)
        for _ in 0..<1000 {
            let (text, _) = generator.job(target: [#""tokens":["a1" ,"b2", "c3","d4"]"#, #""token":null"#, #""tokens":["ff"]"#])
            let job = try read(text)
            let single = try read(string(job.single(tokenAt: 0)))
            let chunk = try read(string(job.chunk(0..<min(2, job.tokens.count))))
            #expect(single.tokens.map { single.text(of: $0) } == [job.text(of: job.tokens[0])], "seed \(seed): \(text)")
            #expect(
                chunk.tokens.map { chunk.text(of: $0) } == job.tokens.prefix(2).map { job.text(of: $0) }, "seed \(seed): \(text)")
            for part in [single, chunk] {
                #expect(string(part.bytes[part.data]) == string(job.bytes[job.data]), "seed \(seed): \(text)")
                #expect(
                    part.identifierJSON == job.identifierJSON && part.attempts == job.attempts && part.deadline == job.deadline)
            }
        }
    }
}

@Suite("A job in the log")
struct JobInLogTests {
    @Test func `fits on one line`() {
        #expect(string(Job.onOneLine(Array("{\"a\":\r\n 1,\n\t\"b\\n\":2}\r".utf8))) == "{\"a\":   1, \t\"b\\n\":2} ")
    }

    @Test(arguments: [
        (#"{"token":"071c09abcdef","data":{"aps":{}},"identifier":4}"#, #"{"token":"071c09ab","identifier":4}"#),
        (#"{"data":{}, "token":"071c", "data":5}"#, #"{"token":"071c"}"#),
        (
            #"{"tokens":[ "071c09abcdef", 5 ,{"a":"secret"},"zz","071c09abzz"], "data":{} }"#,
            #"{"tokens":["071c09ab",null,null,"","071c09ab"] }"#
        ),
        (#"{"token":"\u0030\u00371c09abcdef","tokens":["\u0061b\/secret"],"data":{}}"#, #"{"token":"071c09ab","tokens":["ab"]}"#),
        (#"{"token":{"x":"secret"},"d\u0061ta":{},"tokens":"secret"}"#, #"{"token":null,"tokens":null}"#),
        (#"{"data":{"secret":1}"#, "20 bytes"), ("secret", "6 bytes"), ("{}", "{}"), (#"{"data":1}"#, "{}"),
    ])
    func `is redacted to eight digits and no payload`(before: String, after: String) {
        #expect(string(Redaction(isOn: true).job(Array(before.utf8))) == after)
    }
}

/// The members of a JSON object with all their bytes, in order.
private func rawMembers(of text: String) -> [String]? {
    let bytes = Array(text.utf8)
    guard let object = JobObject(bytes) else { return nil }
    return object.members.map { string(bytes[$0.range]) }
}

/// Jobs with members, spaces and duplicates at random.
private struct SeededJobs {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    private static let others = [
        #""identifier" : 9007199254740993"#, #""x":"}{,\"" "#, #""_gapless_RETRYING":3"#, #""_gapless_deadline": 77"#,
        #""_gapless_RETRYING":"a""#,
        #""y":[1.0,{"tokens":[]}]"#, #""é":"😀\u00e9""#, #""expiry":60"#, #""_gapless_\u0052ETRYING":1"#, #""data":{"old":1}"#,
        #""identifier":"q""#,
    ]

    mutating func below(_ bound: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % bound
    }

    /// The members come back as they stand in the text. `data` at the end is the one that counts.
    mutating func job(target: [String]) -> (text: String, members: [String]) {
        var members = target
        for _ in 0..<below(6) { members.insert(Self.others[below(Self.others.count)], at: below(members.count + 1)) }
        members.append(#""data":{"aps":{"alert":"a"},"n":1.50,"n":-0}"#)
        for _ in 0..<below(3) { members.append(Self.others[below(9)]) }
        members = members.map { $0.hasSuffix(" ") ? String($0.dropLast()) : $0 }
        let spaces = ["", " ", "\n", "\t ", "", ""]
        var text = spaces[below(6)] + "{" + spaces[below(6)]
        for (index, member) in members.enumerated() {
            text += (index > 0 ? "," + spaces[below(6)] : "") + member + spaces[below(6)]
        }
        return (text + "}" + spaces[below(6)], members)
    }
}

extension Job {
    /// The single-token form for a token.
    func single(tokenAt index: Int) -> [UInt8] { singleParts([tokens[index].value])?.parts(of: bytes).first ?? bytes }

    /// The job for a part of its tokens.
    fileprivate func chunk(_ range: Range<Int>) -> [UInt8] { chunkParts([range])?.parts(of: bytes).first ?? bytes }
}
