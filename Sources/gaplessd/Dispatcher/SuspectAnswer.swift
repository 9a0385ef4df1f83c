import PushPool

/// An answer that a wrong environment would explain, and what the feedback list is to say should the token be to blame.
struct SuspectAnswer {
    var rejection: Rejection
    var verdict: FeedbackRecord.Verdict?
    /// From a session of the settings before a reload, whose environment may have been another one.
    var isStale = false
}
