public import APNSSimulator
public import ArgumentParser
import Glibc

@main
struct APNSSimulatorTool: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns-simulator",
        abstract: "Simulates Apple's push service: real TLS and HTTP/2, Apple's rules, and scripted faults.",
        discussion: """
            Any APNs client can connect to it instead of api.push.apple.com. It validates each request as APNs does, answers \
            with Apple's statuses and reasons, and fails on demand as APNs does: rejections, unregistered tokens, delays, \
            silence, GOAWAY, connections cut before or after a push was accepted. It delivers nothing.

            EXAMPLES
              Serve, with credentials in ./credentials, which are created if missing:
                apns-simulator --port 2197 --credentials credentials

              Push to it with curl:
                curl --http2 --cacert credentials/ca.pem \\
                  -H "authorization: bearer $(apns-simulator provider-token credentials)" \\
                  -H "apns-topic: com.example.app" -H "apns-push-type: alert" \\
                  -d '{"aps":{"alert":"Hello"}}' https://localhost:2197/3/device/00aa11bb

              2 % of the pushes fail, 1 % of the tokens are unregistered:
                apns-simulator --port 2197 --credentials credentials \\
                  --fail 503:2% --dead 1% --latency 20ms..40ms

              Tokens with the prefix dead fail twice and are then accepted:
                apns-simulator --port 2197 --credentials credentials \\
                  --token dead=503,503,200
            """,
        subcommands: [Serve.self, MakeCredentials.self, MakeProviderToken.self],
        defaultSubcommand: Serve.self)
}

struct MakeCredentials: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Creates a CA, a server and a client certificate, and a provider key.",
        discussion: """
            FILES
              ca.pem                        the CA that the client must trust
              server.pem, server-key.pem    for localhost, 127.0.0.1 and ::1
              client.pem, client-key.pem    a provider certificate with the first topic as UID
              client.p12                    the same, as exported by Keychain
              AuthKey_KEYID.p8              a provider signing key
              team-id, key-id               its team and its id
            Key files have mode 0600. The path of each file is printed.
            """)

    @Argument(help: ArgumentHelp("Directory to write to. Created if missing.", valueName: "dir"))
    var directory: String

    @Option(help: ArgumentHelp("Bundle id; repeatable. The first is also the UID of the certificate.", valueName: "id"))
    var topic = ["com.example.app"]

    @Option(help: ArgumentHelp("Id of the provider key.", valueName: "id"))
    var keyID = "SIMKEY0001"

    @Option(help: ArgumentHelp("Team id of the provider key.", valueName: "id"))
    var teamID = "SIMTEAM001"

    @Option(help: ArgumentHelp("Password of client.p12.", valueName: "text"))
    var p12Password = "simulator"

    @Option(
        help: ArgumentHelp(
            """
            Server certificate: good, wrong-name, untrusted (of an unknown authority) or expired.
            """, valueName: "kind"))
    var server = Credentials.ServerFlaw.good

    @Flag(help: "Replace existing credentials.")
    var force = false

    func run() throws {
        if !force && Credentials.exist(in: directory) {
            throw ValidationError("\(directory) already contains credentials; --force replaces them")
        }
        var request = Credentials.Request(topics: topic, keyID: keyID, teamID: teamID)
        request.p12Password = p12Password
        request.serverFlaw = server
        for path in try Credentials.make(request).write(to: directory) { Output.line(path) }
    }
}

extension Credentials.ServerFlaw: ExpressibleByArgument {}

struct MakeProviderToken: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provider-token", abstract: "Prints a provider token for curl and h2load. It is valid for an hour.")

    @Argument(help: ArgumentHelp("Directory of the credentials.", valueName: "dir"))
    var directory: String

    @Option(help: ArgumentHelp("Age of the token in seconds. 3601: expired.", valueName: "seconds"))
    var age: Int64 = 0

    func run() throws {
        guard age > Int64.min / 2 else { throw ValidationError("--age is out of range") }
        Output.line(try Credentials(directory: directory).providerKey.token(issuedAt: Int64(time(nil)) - age))
    }
}

/// Writes unbuffered lines to standard output.
enum Output {
    static func line(_ text: String) {
        var rest = Array("\(text)\n".utf8)[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            // A closed pipe does not stop the simulator.
            if count <= 0 { return }
            rest = rest.dropFirst(count)
        }
    }
}
