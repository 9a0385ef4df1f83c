import Glibc
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The jobs of an app in cancel and dead")
struct AppSelectionTests {
    /// Jobs by the app for which the daemon would send them.
    private static let jobs: [(app: String, jobs: [String])] = [
        (
            "(top level)",
            [
                CallStage.job("a1"), CallStage.job("a2", marks: #","topic":"com.other""#),
                CallStage.job("a3", marks: #","app":null"#),
            ]
        ),
        (
            "cert",
            [
                CallStage.job("b1", marks: #","app":"cert","topic":"com.voice.voip""#),
                CallStage.job("b2", marks: #","topic":"com.cert""#), CallStage.job("b3", marks: #","topic":"com.cert.more""#),
                CallStage.job("not hex", marks: #","topic":"com.cert.voip""#),
            ]
        ),
        ("p12", [CallStage.job("c1", marks: #","topic":"com.p12.more","push_type":"voip""#)]),
        (
            "voice",
            [
                CallStage.job("d1", marks: #","topic":"com.voice","push_type":"voip""#),
                CallStage.job("d2", marks: #","topic":"com.voice.voip""#),
            ]
        ),
    ]
    /// Jobs that the daemon sends for no app.
    private static let others = [
        "no JSON", CallStage.job("e1", marks: #","app":"old""#),
        CallStage.job("e2", marks: #","topic":"com.voice.voip","push_type":"alert""#),
    ]
    private static let all = jobs.flatMap(\.jobs) + others

    private static func letter(_ job: String) -> [UInt8] {
        DeadLetter(reason: "x", attempts: 0, at: 1, worker: nil, job: Array(job.utf8)).record()
    }

    private func deadJobs(_ stage: CallStage) throws -> [String] {
        try stage.elements(stage.keys.dead).compactMap { DeadLetter(record: Array($0.utf8)) }.map {
            String(decoding: $0.job, as: UTF8.self)
        }
    }

    @Test(arguments: jobs.indices)
    func `are those that the daemon would send for the app`(index: Int) throws {
        let (app, jobs) = Self.jobs[index]
        let left = Self.all.filter { !jobs.contains($0) }
        let stage = try CallStage.withApps()
        _ = try stage.redis(["RPUSH", "calls"] + Self.all)
        _ = try stage.redis(["RPUSH", stage.keys.dead] + Self.all.map { String(decoding: Self.letter($0), as: UTF8.self) })
        let cancelled = try stage.call("cancel", "--app", app)
        #expect(cancelled.status == 0 && cancelled.lines.last == "\(jobs.count) cancelled", "\(cancelled.errors)")
        #expect(try stage.elements("calls") == left)
        #expect(try stage.call("dead", "list", "--json", "--app", app).lines.count == jobs.count)
        let purged = try stage.call("dead", "purge", "--app", app)
        #expect(purged.status == 0 && purged.lines.last == "\(jobs.count) deleted", "\(purged.errors)")
        #expect(try deadJobs(stage) == left)
    }

    @Test func `cannot be told without the certificates`() throws {
        let stage = try CallStage.withApps()
        _ = try stage.redis(["RPUSH", "calls"] + Self.all)
        _ = try stage.redis(["RPUSH", stage.keys.dead] + Self.all.map { String(decoding: Self.letter($0), as: UTF8.self) })
        #expect(unlink(stage.folder.file("cert/client.pem")) == 0)
        try File.write("no PKCS#12", to: stage.folder.file("p12/client.p12"))
        for call in [["cancel"], ["dead", "purge"]] {
            let result = try stage.shell("$G \(call[0]) $S \(call.dropFirst().joined()) --app voice")
            #expect(result.status == 78 && result.output == "")
            #expect(result.errorLines.count == 2)
            #expect(result.errors.contains("/settings.json: apps.cert.apns_cert_path: "), "\(result.errors)")
            #expect(result.errors.contains("cannot be read: No such file or directory; expected a file that this user can read"))
            #expect(result.errors.contains("/settings.json: apps.p12.apns_p12_path: "), "\(result.errors)")
        }
        #expect(try stage.elements("calls") == Self.all && deadJobs(stage) == Self.all)
        // Without --app no certificate is needed.
        #expect(try stage.call("cancel", "--token", "a1").lines.last == "1 cancelled")
        #expect(try stage.call("dead", "purge", "--token", "b1").lines.last == "1 deleted")
    }
}
