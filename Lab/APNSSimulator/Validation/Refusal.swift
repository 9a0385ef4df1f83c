/// A reason as an error, for `Result`.
struct Refusal: Error {
    let reason: Reason
    init(_ reason: Reason) { self.reason = reason }
}
