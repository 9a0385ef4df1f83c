import Glibc
import Harness

/// One call of the built program: its exit status and output.
struct Call {
    let status: CInt?
    let output: String
    let errors: String

    /// - Parameter wrapper: a command that starts the program, such as `env -i`.
    init(_ arguments: [String], environment: [String: String] = [:], under wrapper: [String] = []) throws {
        let folder = TemporaryFolder()
        let command = wrapper + [BuiltProducts.path("gaplessd")] + arguments
        let process = try ChildProcess(
            command[0], Array(command.dropFirst()),
            environment: environment.merging(["STATE_DIRECTORY": folder.file("state")]) { given, _ in given },
            standardOutput: .file(folder.file("out")),
            standardError: .file(folder.file("err")))
        status = process.wait(atMost: .seconds(30))?.status
        output = File.read(folder.file("out"))
        errors = File.read(folder.file("err"))
    }
}
