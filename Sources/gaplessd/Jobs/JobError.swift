/// Why an element of the queue can't be pushed. It becomes a dead letter as it came.
enum JobError: Error, Sendable, Equatable {
    /// It is not a JSON object: "expected ',' at byte 17".
    case unmarshal(String)
    /// It is one, and not a job: "token is missing", "data is not an object at byte 30".
    case structure(String)
}
