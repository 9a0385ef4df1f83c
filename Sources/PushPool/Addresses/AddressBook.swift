internal import Platform

/// Chooses the address of the next dial. All sessions of a pool share it.
///
/// Apple balances load by DNS, and records can point at dead hosts (jchambers/pushy#1044): sessions spread over distinct
/// addresses, and an address that failed is avoided for a while if there is another.
struct AddressBook: Sendable {
    static let badFor: Duration = .seconds(60)

    private var badUntil: [SocketAddress: Instant] = [:]
    private var sessions: [SocketAddress: Int] = [:]

    /// Chooses among `candidates`, and counts a session on the returned address until `release`.
    ///
    /// Prefers addresses that have not failed, then the least used, then the first.
    ///
    /// - Parameter candidates: in random order.
    mutating func choose(from candidates: [SocketAddress], now: Instant) -> SocketAddress? {
        badUntil = badUntil.filter { $0.value > now }
        let best = candidates.min { left, right in
            let isLeftBad = badUntil[left] != nil
            let isRightBad = badUntil[right] != nil
            if isLeftBad != isRightBad { return isRightBad }
            return sessions[left, default: 0] < sessions[right, default: 0]
        }
        if let best { sessions[best, default: 0] += 1 }
        return best
    }

    /// The session on this address has ended, or never opened.
    mutating func release(_ address: SocketAddress) {
        guard let count = sessions[address] else { return }
        sessions[address] = count > 1 ? count - 1 : nil
    }

    /// The dial to this address failed.
    mutating func failed(_ address: SocketAddress, now: Instant) {
        badUntil[address] = now + AddressBook.badFor
        release(address)
    }
}
