import APNSSimulator
import ArgumentParser

struct ScriptOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Share of the requests with an answer, such as 503:2%; repeatable.", valueName: "answer:share"))
    var fail: [String] = []

    @Option(help: ArgumentHelp("--fail selects tokens instead of requests, and each fails n times.", valueName: "n"))
    var failTimes: Int?

    @Option(help: ArgumentHelp("Share of the tokens that always get 410 Unregistered.", valueName: "share"))
    var dead: String?

    @Option(help: ArgumentHelp("Time before each answer, such as 20ms or 20ms..40ms.", valueName: "time"))
    var latency: String?

    @Option(
        help: ArgumentHelp(
            """
            Successive answers for tokens with a prefix, such as dead=503,503,200; repeatable. ANSWER*N repeats N times, a \
            last ANSWER* without end.
            """, valueName: "prefix=answers"))
    var token: [String] = []

    @Option(help: ArgumentHelp("State of the tokens with a prefix; repeatable.", valueName: "prefix=state"))
    var device: [String] = []

    @Option(help: ArgumentHelp("Answer to the n-th valid push; repeatable.", valueName: "n=answer"))
    var at: [String] = []

    @Option(help: ArgumentHelp("Answer to every n-th valid push; repeatable.", valueName: "n=answer"))
    var every: [String] = []

    @Option(help: ArgumentHelp("Seed of all random choices. Default: a random seed, which is printed.", valueName: "n"))
    var seed: UInt64?

    func validate() throws {
        if let failTimes, failTimes < 1 { throw ValidationError("--fail-times must be at least 1") }
        let script: Script
        do {
            script = try self.script()
            _ = try devices()
        } catch {
            throw ValidationError("\(error)")
        }
        guard script.failures.map(\.fraction).reduce(0, +) <= 1 else {
            throw ValidationError("the sum of the shares of --fail must be at most 100%")
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
