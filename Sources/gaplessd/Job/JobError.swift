/// The reason why an element of the queue cannot be pushed. The element becomes a dead letter, byte for byte as received.
struct JobError: Error, Sendable, Equatable, CustomStringConvertible {
    enum Kind: Sendable {
        /// The element is not a JSON object.
        case unmarshal
        /// The element is a JSON object, but not a job.
        case structure
    }

    var kind: Kind
    /// A clause without the offset: "expected ','", "token is missing".
    var problem: String
    /// Bytes from the start of the element; `nil` for a problem that has no place.
    var offset: Int?

    static func unmarshal(_ problem: String, at offset: Int? = nil) -> Self {
        JobError(kind: .unmarshal, problem: problem, offset: offset)
    }

    static func structure(_ problem: String, at offset: Int? = nil) -> Self {
        JobError(kind: .structure, problem: problem, offset: offset)
    }

    /// "expected ',' at byte 17", "token is missing".
    var description: String { offset.map { "\(problem) at byte \($0)" } ?? problem }

    /// The reason of the dead letter.
    var reason: String {
        switch kind {
        case .unmarshal: "Json unmarshal error: \(description)"
        case .structure: "Parsing apns structure error: \(description)"
        }
    }
}
