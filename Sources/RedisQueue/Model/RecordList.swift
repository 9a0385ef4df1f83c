/// A list of records beside the queue, with a maximum of its own.
public enum RecordList: Sendable, CaseIterable {
    case deadLetters, feedback

    /// Without a maximum, the number of records is reported at every multiple of this.
    var step: Int {
        switch self {
        case .deadLetters: 10_000
        case .feedback: 100_000
        }
    }
}
