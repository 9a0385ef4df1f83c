/// The consequence of a reply for its connection.
enum ReplyReading: Equatable {
    case good
    case unintelligible
    /// The connection cannot be used any more.
    case lost(String)
}
