/// A promise that the bytes of a fuzzer broke.
struct BrokenPromise: Error, CustomStringConvertible {
    var description: String

    /// Throws unless the condition holds.
    static func unless(_ condition: Bool, _ promise: @autoclosure () -> String) throws {
        if !condition { throw BrokenPromise(description: promise()) }
    }
}
