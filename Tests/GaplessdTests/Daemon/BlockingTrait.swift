import Harness
import Testing

/// Runs each test on the thread pool for tests that block.
struct BlockingTrait: SuiteTrait, TestTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await ThreadPool.shared.run(function)
    }
}

extension Trait where Self == BlockingTrait {
    /// The tests wait for processes.
    static var blocking: Self { Self() }
}
