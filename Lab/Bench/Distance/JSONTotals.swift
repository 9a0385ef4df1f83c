import JSONBytes

/// The counters that the simulator prints at its end.
struct JSONTotals {
    let accepted: Int
    let connections: Int

    init(_ line: String) throws {
        let value = try JSONValue.parse(Array(line.utf8))
        guard let accepted = value["accepted"]?.integerValue, let connections = value["connections"]?.integerValue else {
            throw LabError(description: "the simulator printed no totals: \(line)")
        }
        (self.accepted, self.connections) = (Int(accepted), Int(connections))
    }
}
