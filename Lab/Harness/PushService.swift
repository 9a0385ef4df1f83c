import APNSSimulator

/// An APNs that a stage can stop and ask for its ledger.
public protocol PushService: AnyObject {
    var port: Int { get }
    /// What it saw so far; all of it once it has ended.
    var ledger: Ledger { get }
    /// Ends it; returns its totals as it prints them.
    func stop() -> String
}
