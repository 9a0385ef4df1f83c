public import APNSSimulator
public import ArgumentParser
import Glibc

struct MakeCredentials: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Creates a CA, a server and a client certificate, and a provider key.",
        discussion: """
            FILES
              ca.pem                        the CA that the client must trust
              server.pem, server-key.pem    for localhost, 127.0.0.1 and ::1
              client.pem, client-key.pem    a provider certificate with the first topic as UID
              client.p12                    the same, as exported by Keychain
              AuthKey_KEYID.p8, team-id     a provider signing key and its team
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
