/// Words that must not reach a device.
extension Dispatcher {
    /// Whether the filter keeps a job from being sent. Where it masks words instead, the job carries what is sent.
    func isStoppedByFilter(_ job: HeldJob) -> Bool {
        guard let filter else { return false }
        switch filter.judge(job.job.data, of: job.job.bytes) {
        case .clean: return false
        case .stopped: return true
        case .masked(let payload):
            job.maskedPayload = payload
            return false
        }
    }
}
