import APNSSimulator
import ArgumentParser

struct ListeningOptions: ParsableArguments {
    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 takes a free one.")
    var port = 0

    @Option(
        help: ArgumentHelp(
            """
            Directory of the certificates and the provider key, made there when they are missing. Without it they are made \
            anew and kept in memory, where no client can trust them.
            """, valueName: "dir"))
    var credentials: String?

    @Option(help: ArgumentHelp("Credentials that a client may show: any, token or certificate.", valueName: "kind"))
    var auth = Authentication.any

    @Option(
        help: ArgumentHelp(
            "Bundle id that is known, with the suffixes of the push types; repeatable. All are, unless told.",
            valueName: "id"))
    var topic: [String] = []

    @Flag(help: "Be the sandbox: answers carry apns-unique-id, and certificates must be for development.")
    var sandbox = false

    @Option(help: ArgumentHelp("Bundle id that may broadcast; repeatable. All may, unless told.", valueName: "id"))
    var broadcastTopic: [String] = []

    @Option(help: ArgumentHelp("Broadcast channel that is there from the start; repeatable.", valueName: "bundle=id"))
    var channel: [String] = []

    func validate() throws {
        for text in channel { _ = try ListeningOptions.channel(text) }
        guard (0...65535).contains(port) else { throw ValidationError("--port is 0 to 65535") }
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
        guard sides.count == 2 else { throw ValidationError("--channel is BUNDLEID=ID, the id in base64") }
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
