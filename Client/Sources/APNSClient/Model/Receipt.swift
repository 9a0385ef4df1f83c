/// The acceptance of a push by APNs. It says nothing about the display on the device.
public struct Receipt: Sendable, Equatable {
    /// The id of the push at APNs; `nil` if the configuration does not ask for ids and the push has none of its own.
    public let apnsID: String?
    /// The number of requests that were made.
    public let attempts: Int
    /// Whether an earlier request may have been accepted too.
    public let mayBeDuplicate: Bool
}
