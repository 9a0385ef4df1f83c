import APNSSimulator
import ArgumentParser

struct ListeningOptions: ParsableArguments {
    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on. 0: any free port.")
    var port = 0

    @Option(
        help: ArgumentHelp(
            """
            Directory of the certificates and the provider key, which are created if missing. Without this option, they are \
            created in memory, and no client can trust them.
            """, valueName: "dir"))
    var credentials: String?

    @Option(help: ArgumentHelp("Accepted credentials: any, token or certificate.", valueName: "kind"))
    var auth = Authentication.any

    @Option(
        help: ArgumentHelp(
            "Bundle id that is known, also with the suffix of a push type; repeatable. Default: all.",
            valueName: "id"))
    var topic: [String] = []

    @Flag(help: "Simulate the sandbox: answers contain apns-unique-id, and certificates must be for development.")
    var sandbox = false

    @Option(help: ArgumentHelp("Bundle id that may broadcast; repeatable. Default: all.", valueName: "id"))
    var broadcastTopic: [String] = []

    @Option(help: ArgumentHelp("Existing broadcast channel; repeatable.", valueName: "bundle=id"))
    var channel: [String] = []

    func validate() throws {
        for text in channel { _ = try ListeningOptions.channel(text) }
        guard (0...65535).contains(port) else { throw ValidationError("--port must be 0 to 65535") }
    }

    func configuration() throws -> Simulator.Configuration {
        var configuration = Simulator.Configuration(credentials: try usedCredentials())
        configuration.host = host
        configuration.port = port
        configuration.authentication = auth
        configuration.topics = topic
        configuration.environment = sandbox ? .sandbox : .production
        configuration.broadcastTopics = broadcastTopic
        configuration.channels = try channel.map(ListeningOptions.channel)
        return configuration
    }

    private static func channel(_ text: String) throws -> Simulator.Channel {
        let sides = text.split(separator: "=", maxSplits: 1).map(String.init)
        guard sides.count == 2 else { throw ValidationError("--channel must be BUNDLEID=ID, with the id in base64") }
        return Simulator.Channel(app: sides[0], id: sides[1])
    }

    private func usedCredentials() throws -> Credentials {
        let request = topic.isEmpty ? Credentials.Request() : Credentials.Request(topics: topic)
        guard let credentials else { return try Credentials.make(request) }
        if Credentials.exist(in: credentials) { return try Credentials(directory: credentials) }
        let made = try Credentials.make(request)
        try made.write(to: credentials)
        return made
    }
}
