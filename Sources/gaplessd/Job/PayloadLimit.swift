/// The most bytes of a payload that Apple takes.
enum PayloadLimit {
    /// To one device ("Generating a remote notification").
    static func toDevice(pushType: String) -> Int { pushType == "voip" ? 5120 : 4096 }

    /// Of a broadcast of any push type ("Sending broadcast push notification requests to APNs").
    static let ofBroadcast = 5120
}
