import Testing

@testable import gaplessd

@Suite("Hostile jobs")
struct JobHostileTests {
    private static let jobs = [
        #"{"token":"071c09ab","data":{"aps":{"alert":"SECRET"}},"identifier":154,"expiry":60,"_gapless_RETRYING":1}"#,
        #"{"tokens":["071c09ab",5,"xx"],"data":{"SECRET":[1.0,null]},"token":null,"not_before":1.5,"expires_at":9}"#,
        #"{"token":"ab","token":"cd","data":{"aps":{"content-available":1}},"app":"a","topic":"t","#
            + #""collapse_id":"c","priority":5,"_gapless_deadline":77}"#,
    ]
    private static let pieces = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u0000", "\u{0}", "null", "-1", "1e999", "99999999999999999999", #""token":"#,
        #""data":{},"#,
        #""tokens":["ab"],"#, #""_gapless_RETRYING":-5,"#, #""_gapless_deadline":9223372036854775807,"#, "\"\"", "é", "../",
    ]

    /// Returns jobs with random changes of their bytes.
    static func mutants(_ count: Int, seed: UInt64) -> [[UInt8]] {
        var state = seed
        func below(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }
        return (0..<count).map { _ in
            var bytes = Array(Self.jobs[below(Self.jobs.count)].utf8)
            for _ in 0...below(3) {
                let start = below(bytes.count)
                let end = min(bytes.count, start + below(12))
                switch below(4) {
                case 0: bytes.removeSubrange(start..<end)
                case 1: bytes[start] = UInt8(below(256))
                case 2: bytes.insert(contentsOf: Array(bytes[start..<end]), at: below(bytes.count))
                default: bytes.insert(contentsOf: Self.pieces[below(Self.pieces.count)].utf8, at: start)
                }
                if bytes.isEmpty { bytes = [0] }
            }
            return bytes
        }
    }

    @Test func `are jobs within their bounds or errors, and can be spliced and logged`() {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("JobHostileTests seed \(seed)")
        var reader = JobReader(retryLimit: 3, appNames: ["a"])
        var taken = 0
        for bytes in Self.mutants(10_000, seed: seed) {
            _ = JobReader.identity(of: bytes)
            _ = Redaction(isOn: true).job(bytes)
            let unmarked = Job.unmarked(bytes)
            guard let job = try? reader.read(bytes) else { continue }
            taken += 1
            let note: Comment = "seed \(seed): \(String(decoding: bytes, as: UTF8.self))"
            #expect((try? reader.read(unmarked))?.attempts == 0, note)
            #expect((0...3).contains(job.attempts) && bytes[job.data].first == UInt8(ascii: "{"), note)
            #expect((try? reader.read(job.markedForRetry(attempts: 3, deadline: 1)))?.isExpired(now: 2) == true, note)
            for (index, token) in job.tokens.enumerated() {
                // Without the blanks and brackets of a token's old description.
                let text = job.text(of: token)
                let isGood = token.fault == nil
                #expect(!isGood || (1...1000).contains(text.utf8.count) && text.utf8.allSatisfy(isHex), note)
                #expect(((try? reader.read(job.single(tokenAt: index))) != nil) == isGood, note)
            }
            #expect((try? reader.read(Job.onOneLine(bytes))) != nil, note)
        }
        #expect(taken > 500, "too few of the mutated jobs were still jobs")
    }

    @Test func `may have any depth and any size`() {
        var reader = JobReader(retryLimit: 3, appNames: [])
        let deep =
            Array("{\"token\":\"ab\",\"x\":".utf8) + [UInt8](repeating: UInt8(ascii: "["), count: 100_000)
            + [UInt8](repeating: UInt8(ascii: "]"), count: 100_000) + Array(",\"data\":{}}".utf8)
        #expect((try? reader.read(deep)) != nil)
        #expect(Redaction(isOn: true).job(deep).count == deep.count - ",\"data\":{}".utf8.count)
        let large =
            Array("{\"token\":\"ab\",\"x\":\"".utf8) + [UInt8](repeating: UInt8(ascii: "x"), count: 20 << 20)
            + Array("\",\"data\":{}}".utf8)
        #expect((try? reader.read(large)) != nil)
    }
}
