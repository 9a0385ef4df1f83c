public import APNSSimulator
public import ArgumentParser
import Glibc

struct MakeCredentials: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Makes a CA, a server and a client certificate and a provider key.",
        discussion: """
            FILES
              ca.pem                        trust this in the client under test
              server.pem, server-key.pem    the simulator's own, for localhost, 127.0.0.1 and ::1
              client.pem, client-key.pem    a provider certificate: its subject's UID is the first topic
              client.p12                    the same as the Keychain would export it
              AuthKey_KEYID.p8, team-id     a provider signing key, and its team
            Keys have mode 0600. Paths are printed as they are written.
            """)

    @Argument(help: ArgumentHelp("Directory to write to, made where it is missing.", valueName: "dir"))
    var directory: String

    @Option(help: ArgumentHelp("Bundle id, the first also the certificate's UID; repeatable.", valueName: "id"))
    var topic = ["com.example.app"]

    @Option(help: ArgumentHelp("Key id of the provider key.", valueName: "id"))
    var keyID = "SIMKEY0001"

    @Option(help: ArgumentHelp("Team id of the provider key.", valueName: "id"))
    var teamID = "SIMTEAM001"

    @Option(help: ArgumentHelp("Password of client.p12.", valueName: "text"))
    var p12Password = "simulator"

    @Option(
        help: ArgumentHelp(
            """
            The server's certificate: good, wrong-name, untrusted (of an authority that nobody knows) or expired. Serve \
            with the directory to see what a client makes of it.
            """, valueName: "kind"))
    var server = Credentials.ServerFlaw.good

    @Flag(help: "Replace credentials that are there already.")
    var force = false

    func run() throws {
        if !force && Credentials.exist(in: directory) {
            throw ValidationError("there are credentials in \(directory) already; --force replaces them")
        }
        var request = Credentials.Request(topics: topic, keyID: keyID, teamID: teamID)
        request.p12Password = p12Password
        request.serverFlaw = server
        for path in try Credentials.make(request).write(to: directory) { Output.line(path) }
    }
}

extension Credentials.ServerFlaw: ExpressibleByArgument {}
