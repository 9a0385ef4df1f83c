public import Glibc

/// A mutual exclusion lock around one value.
///
/// Inlinable code here and in `Mailbox` is specialised at its use; otherwise each call looks up the type at run time.
///
/// A `pthread_mutex` rather than `Synchronization.Mutex`, for which Thread Sanitizer on Linux reports false races: it does not
/// know its futex calls.
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

    /// Runs `body` with the value. Keep it short: other threads wait.
    @inlinable
    public func withLock<Result, Failure: Error>(_ body: (inout Value) throws(Failure) -> Result) throws(Failure) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
