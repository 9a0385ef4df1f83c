/// One step of a run, as the trace shows it. The two numbers beside it are explained for each kind.
enum Step: UInt8 {
    /// The number of jobs, the first of them.
    case produced
    /// The worker, the kind of the call.
    case executed
    /// The worker, the number of replies.
    case replied
    /// A blocked wait ends: the worker, 1 if there is a job.
    case waitEnded
    /// The worker, the number of jobs that it holds.
    case turn
    /// The worker, the session.
    case sessionTurn
    /// The worker, the number of sessions.
    case poolTurn
    /// The worker, the job: a request leaves.
    case sent
    /// The job, the status.
    case processed
    /// The session, the job: a response arrives.
    case answered
    /// The worker, the job.
    case outcome
    /// The worker, the session.
    case opened
    case dialFailed
    case closed
    /// The session, the last stream.
    case goAway
    /// The worker, its generation of the settings.
    case reloaded
    case started
    case stopped
    /// The kind of the fault, the worker.
    case fault
    /// The number of jobs, the worker that is reaped.
    case reaped
    /// The app.
    case disturbed

    /// Whether the step belongs to the story of a job: it names the job, or may have changed any job.
    func concerns(_ job: Int, _ first: Int, _ second: Int) -> Bool {
        switch self {
        case .produced: (second..<second + first).contains(job)
        case .sent, .answered: second == job
        case .processed: first == job
        case .fault, .started, .stopped, .reaped, .disturbed: true
        default: false
        }
    }
}
