import Harness
import Testing

private let hasPrograms = ["python3", "openssl", "redis-cli"].allSatisfy { name in
    (try? ChildProcess(name, [name == "openssl" ? "version" : "--version"]).wait().status) == 0
}

@Suite("docs/mistakes.md", .blocking)
struct MistakesPageTests {
    @Test(.enabled(if: hasPrograms, "python3, openssl or redis-cli is missing"))
    func `has what the program says about each mistake`() throws {
        let folder = TemporaryFolder()
        let output = folder.file("output")
        let process = try ChildProcess(
            "python3", ["\(Checkout.path)/scripts/mistakes", "--check", BuiltProducts.path("gaplessd")],
            standardOutput: .file(output), standardError: .file(output))
        #expect(process.wait(atMost: .seconds(600))?.status == 0, "\(File.read(output))")
    }
}
