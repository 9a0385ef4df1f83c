/// What an APNs client certificate says of itself.
public struct CertificateFacts: Sendable, Equatable {
    /// The subject on one line.
    public var subject: String
    /// The subject's UID (0.9.2342.19200300.100.1.1): the default topic.
    public var userID: String?
    /// Topics of extension 1.2.840.113635.100.6.3.6, in its order; empty where there is no such extension.
    public var topics: [String]
    /// Unix seconds.
    public var notBefore: Int64
    /// Unix seconds.
    public var notAfter: Int64
    /// Extension 1.2.840.113635.100.6.3.1: good for the sandbox.
    public var isForDevelopment: Bool
    /// Extension 1.2.840.113635.100.6.3.2: good for production.
    public var isForProduction: Bool

    public init(
        subject: String, userID: String?, topics: [String], notBefore: Int64, notAfter: Int64, isForDevelopment: Bool,
        isForProduction: Bool
    ) {
        self.subject = subject
        self.userID = userID
        self.topics = topics
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.isForDevelopment = isForDevelopment
        self.isForProduction = isForProduction
    }

    /// The topic of a push that names none: the UID, or the certificate's only topic.
    public var defaultTopic: String? { userID ?? (topics.count == 1 ? topics.first : nil) }

    /// Whole days until it expires; negative afterwards.
    public func daysLeft(now: Int64) -> Int64 {
        let seconds = notAfter - now
        return seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
    }

    /// What is wrong with its dates; `nil` where nothing is.
    public func faultOfDates(now: Int64) -> CredentialError? {
        do {
            try checkDates(now: now)
            return nil
        } catch { return error }
    }

    func checkDates(now: Int64) throws(CredentialError) {
        if now > notAfter {
            throw CredentialError(
                "the certificate expired on \(CertificateFacts.day(notAfter)); a new one is made in the developer account")
        }
        if now < notBefore {
            throw CredentialError(
                "the certificate is not valid before \(CertificateFacts.day(notBefore)); is this machine's clock right?")
        }
    }

    /// `2026-11-20` of Unix seconds, UTC; the calendar by whole days, as years from March (Hinnant, "chrono-compatible
    /// low-level date algorithms").
    static func day(_ seconds: Int64) -> String {
        let days = (seconds >= 0 ? seconds : seconds - 86_399) / 86_400 + 719_468
        let era = (days >= 0 ? days : days - 146_096) / 146_097
        let dayOfEra = days - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        func digits(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
        return "\(year)-\(digits(month))-\(digits(day))"
    }

    /// The topics in the value of extension .6: a SEQUENCE of UTF8String topic and SEQUENCE of its services, in turn
    /// (jchambers/pushy, certificate script).
    static func topics(inExtension value: [UInt8]) -> [String] {
        var outer = DERReader(value[...])
        guard let list = outer.next(), list.tag == DERReader.sequence else { return [] }
        var inner = DERReader(list.content)
        var topics: [String] = []
        while let element = inner.next() {
            if element.tag == DERReader.utf8String { topics.append(String(decoding: element.content, as: UTF8.self)) }
        }
        return topics
    }
}

/// Steps through DER elements side by side (X.690): tag, length, content. Stops where the bytes make no sense.
private struct DERReader {
    static let utf8String: UInt8 = 0x0C
    static let sequence: UInt8 = 0x30

    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    mutating func next() -> (tag: UInt8, content: ArraySlice<UInt8>)? {
        guard let tag = rest.popFirst(), let first = rest.popFirst() else { return nil }
        var length = Int(first)
        if first & 0x80 != 0 {
            let digits = Int(first & 0x7F)
            // Three bytes of length are more than any certificate has.
            guard (1...3).contains(digits), rest.count >= digits else { return nil }
            length = rest.prefix(digits).reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(digits)
        }
        guard rest.count >= length else { return nil }
        defer { rest = rest.dropFirst(length) }
        return (tag, rest.prefix(length))
    }
}
