/// A place that a device watches, with the name and the unit that its owner chose.
struct Location: Hashable, Sendable {
    /// Bytes of a name. A push has at most 4096 bytes, and a lock screen shows far fewer.
    static let mostNameBytes = 200

    var place: Place
    var name: String
    var unit: TemperatureUnit
}
