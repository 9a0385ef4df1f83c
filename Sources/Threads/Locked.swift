public import Glibc

/// A mutual exclusion lock around one value.
///
/// What is inlinable here and in `Mailbox` is made for its type where it is used: unspecialised, each call looks that type up at run time.
///
/// A `pthread_mutex` and not `Synchronization.Mutex`: on Linux the latter makes Thread Sanitizer report races that are
/// none (futex calls it does not know).
@safe public final class Locked<Value: Sendable>: @unchecked Sendable {  // Every access to `value` holds `mutex`.
    @usableFromInline var value: Value
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>

    public init(_ value: Value) {
        self.value = value
        unsafe mutex = .allocate(capacity: 1)
        unsafe mutex.initialize(to: pthread_mutex_t())
        unsafe pthread_mutex_init(mutex, nil)
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deinitialize(count: 1)
        unsafe mutex.deallocate()
    }

    /// Runs `body` with the value. Keep it short: every other thread that wants the value waits.
    @inlinable
    public func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
