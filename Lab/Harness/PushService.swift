/// A simulator of APNs that a stage can stop, and whose ledger it can read.
public protocol PushService: AnyObject {
    var port: Int { get }
    /// The requests so far, read from the ledger file; complete after `stop`.
    var ledger: Ledger { get }
    /// Stops the simulator and returns its totals as JSON.
    func stop() -> String
}
