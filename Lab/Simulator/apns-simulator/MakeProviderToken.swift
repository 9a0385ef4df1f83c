import APNSSimulator
import ArgumentParser
import Glibc

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
