import Testing

@Suite("The tests")
struct TestHygieneTests {
    @Test func `no test waits for time to pass`() {
        let calls = ["usleep(", "Thread.sleep", "Task.sleep", "nanosleep(", " sleep("]
        let endlessWait = /waitUntil.*\{\s*(?:return )?false\s*\}/
        var violations: [String] = []
        for file in SourceFile.tests {
            let code = String(decoding: file.swift.code, as: UTF8.self)
            for (index, line) in code.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
                violations += calls.filter { line.contains($0) }.map { "\(file.path):\(index + 1): \($0)" }
            }
            violations += code.matches(of: endlessWait).map { "\(file.path): \($0.0)" }
        }
        Rule.sleeping.expectNone(violations)
    }
}
