import APNSSimulator
import ArgumentParser

struct ScriptOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Share of the requests with this answer, as 503:2%; repeatable.", valueName: "answer:share"))
    var fail: [String] = []

    @Option(help: ArgumentHelp("--fail picks tokens instead of requests, and each fails this many times.", valueName: "n"))
    var failTimes: Int?

    @Option(help: ArgumentHelp("Share of the tokens that are 410 Unregistered, always the same.", valueName: "share"))
    var dead: String?

    @Option(help: ArgumentHelp("Time before each answer, as 20ms or 20ms..40ms.", valueName: "time"))
    var latency: String?

    @Option(
        help: ArgumentHelp(
            """
            Successive answers for tokens with this prefix, as dead=503,503,200; ANSWER*N counts N times, a last ANSWER* for \
            ever; repeatable.
            """, valueName: "prefix=answers"))
    var token: [String] = []

    @Option(help: ArgumentHelp("What is known of tokens with this prefix; repeatable.", valueName: "prefix=state"))
    var device: [String] = []

    @Option(help: ArgumentHelp("Answer for the n-th valid push; repeatable.", valueName: "n=answer"))
    var at: [String] = []

    @Option(help: ArgumentHelp("Answer for every n-th valid push; repeatable.", valueName: "n=answer"))
    var every: [String] = []

    @Option(help: ArgumentHelp("Seed of everything random; chosen and printed unless given.", valueName: "n"))
    var seed: UInt64?

    func validate() throws {
        if let failTimes, failTimes < 1 { throw ValidationError("--fail-times is 1 or more") }
        let script: Script
        do {
            script = try self.script()
            _ = try devices()
        } catch {
            throw ValidationError("\(error)")
        }
        guard script.failures.map(\.fraction).reduce(0, +) <= 1 else {
            throw ValidationError("the shares of --fail are more than 100% together")
        }
    }

    func script() throws -> Script {
        Script(
            seed: seed ?? UInt64.random(in: 1...999_999), failures: try fail.map { try Script.Share($0) },
            failTimes: failTimes, deadShare: try dead.map { try Script.fraction($0) } ?? 0,
            latency: try latency.map { try Script.latency($0) }, tokenPlans: try token.map { try Script.TokenPlan($0) },
            turns: try at.map { try Script.Turn($0, repeats: false) } + every.map { try Script.Turn($0, repeats: true) })
    }

    func devices() throws -> [DeviceRule] { try device.map { try DeviceRule($0) } }
}
