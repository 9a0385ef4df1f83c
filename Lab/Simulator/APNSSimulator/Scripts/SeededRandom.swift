/// SplitMix64. The same seed gives the same numbers on every machine.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return SeededRandom.mix(state)
    }

    /// Returns a uniform number in 0..<1.
    mutating func fraction() -> Double { SeededRandom.fraction(next()) }

    static func mix(_ value: UInt64) -> UInt64 {
        var mixed = value
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Converts the upper 53 bits, the precision of `Double`.
    static func fraction(_ bits: UInt64) -> Double { Double(bits >> 11) * 0x1p-53 }
}
