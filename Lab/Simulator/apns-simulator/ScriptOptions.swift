import APNSSimulator
import ArgumentParser

struct ScriptOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Give this answer to a random share of the requests, such as 503:2%; repeatable.", valueName: "answer:share"))
    var fail: [String] = []

    @Option(
        help: ArgumentHelp(
            "With --fail: select a share of the tokens instead. The first n requests of each of them fail.", valueName: "n"))
    var failTimes: Int?

    @Option(help: ArgumentHelp("Share of the tokens that always get 410 Unregistered, such as 1%.", valueName: "share"))
    var dead: String?

    @Option(help: ArgumentHelp("Time before each answer, such as 20ms or 20ms..40ms.", valueName: "time"))
    var latency: String?

    @Option(
        help: ArgumentHelp(
            """
            Answers to the first, second, third request of each token with this prefix, such as dead=503,503,200; \
            repeatable. ANSWER*N stands for N such answers, and ANSWER* at the end for all further requests.
            """, valueName: "prefix=answers"))
    var token: [String] = []

    @Option(
        help: ArgumentHelp(
            "State of all tokens with this prefix, such as 00=unregistered; repeatable.", valueName: "prefix=state"))
    var device: [String] = []

    @Option(help: ArgumentHelp("Answer to the n-th valid push, such as 500=half-open; repeatable.", valueName: "n=answer"))
    var at: [String] = []

    @Option(help: ArgumentHelp("Answer to every n-th valid push, such as 1000=cut; repeatable.", valueName: "n=answer"))
    var every: [String] = []

    @Option(
        help: ArgumentHelp(
            "Answer to the n-th channel management request, such as 1=400:CannotCreateChannelConfig or 2=cut-after; repeatable.",
            valueName: "n=answer"))
    var manage: [String] = []

    @Option(
        help: ArgumentHelp(
            "Answer to every n-th channel management request, such as 1=503; repeatable.", valueName: "n=answer"))
    var manageEvery: [String] = []

    @Option(help: ArgumentHelp("Most channels of an app.", valueName: "n"))
    var channelLimit = Channels.limit

    @Option(
        help: ArgumentHelp(
            "Broadcasts that a channel accepts in a time, such as 4/60s or 2..12/60s; 429 above.", valueName: "rate"))
    var channelRate: String?

    @Option(help: ArgumentHelp("Seed of all random choices. Default: a random seed, which is printed.", valueName: "n"))
    var seed: UInt64?

    func validate() throws {
        if let failTimes, failTimes < 1 { throw ValidationError("--fail-times must be at least 1") }
        let script: Script
        do {
            script = try self.script()
            _ = try devices()
            var behaviour = Behaviour()
            try applyChannels(to: &behaviour)
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

    func applyChannels(to behaviour: inout Behaviour) throws {
        behaviour.managementTurns =
            try manage.map { try Script.Turn($0, repeats: false) } + manageEvery.map { try Script.Turn($0, repeats: true) }
        behaviour.channelLimit = channelLimit
        behaviour.channelRate = try channelRate.map { try Behaviour.ChannelRate($0) }
    }

    func devices() throws -> [DeviceRule] { try device.map { try DeviceRule($0) } }
}
