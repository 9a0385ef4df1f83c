/// The values of a quantity that was measured several times.
struct Figures {
    var values: [Double] = []

    var median: Double { percentile(50) }
    var least: Double { values.min() ?? 0 }
    var most: Double { values.max() ?? 0 }

    /// The value that this percentage of the values does not exceed.
    func percentile(_ percent: Double) -> Double {
        let sorted = values.sorted()
        if sorted.isEmpty { return 0 }
        return sorted[min(sorted.count - 1, Int(Double(sorted.count) * percent / 100))]
    }

    /// The median, with the minimum and the maximum in parentheses.
    func text(_ digits: Int) -> String {
        "\(decimal(median, digits)) (\(decimal(least, digits)) - \(decimal(most, digits)))"
    }

    var json: JSON {
        .object([
            ("median", .number(median, digits: 3)), ("min", .number(least, digits: 3)), ("max", .number(most, digits: 3)),
        ])
    }
}

/// Formats a number with this many digits after the point.
func decimal(_ value: Double, _ digits: Int) -> String {
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = Int((value * scale).rounded())
    let sign = scaled < 0 ? "-" : ""
    if digits == 0 { return String(scaled) }
    let fraction = String(scaled.magnitude % UInt(scale))
    return "\(sign)\(scaled.magnitude / UInt(scale))." + String(repeating: "0", count: digits - fraction.count) + fraction
}

func megabytes(_ bytes: Int) -> String { decimal(Double(bytes) / 1_048_576, 1) }
