internal import CLinux
import Glibc
internal import Platform

/// Runs tests that block, because they wait for processes, on its own threads.
///
/// The cooperative threads of Swift concurrency number one per processor. A test that blocks one of them keeps others from
/// running.
public final class ThreadPool: TaskExecutor {
    /// Under a sanitizer a process needs a processor for itself: more tests at once would run into their time limits.
    public static let shared = ThreadPool(threads: Sanitizer.current == nil ? 8 : 2)

    private let jobs = Locked<[UnownedJob]>([])
    private let waiting: Semaphore

    /// Counts the jobs that no thread has taken.
    @safe private final class Semaphore: @unchecked Sendable {  // A POSIX semaphore may be used by any thread.
        private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
        init() { unsafe sem_init(semaphore, 0, 0) }
        func post() { unsafe sem_post(semaphore) }
        func wait() { while unsafe sem_wait(semaphore) != 0 {} }
    }

    private init(threads: Int) {
        let (jobs, waiting) = (jobs, Semaphore())
        self.waiting = waiting
        for _ in 0..<threads {
            guard
                let thread = try? OwnedThread(
                    name: "test", stackBytes: 8 << 20,
                    body: { [unowned self] in
                        while true {
                            waiting.wait()
                            // The newest job first: the end of a running test comes before the start of another one.
                            unsafe jobs.withLock { $0.popLast() }?.runSynchronously(on: asUnownedTaskExecutor())
                        }
                    })
            else { continue }
            thread.leave()
        }
    }

    /// Runs a test on the pool.
    public func run(_ test: @concurrent @Sendable () async throws -> Void) async throws {
        try await withTaskExecutorPreference(self) { try await test() }
    }

    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        waiting.post()
    }
}
