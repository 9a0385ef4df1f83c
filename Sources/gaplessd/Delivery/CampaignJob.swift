import Glibc
internal import JSONBytes
import PushPool
import RedisQueue

/// The job that all tokens of a campaign share, and the tokens that this daemon holds of it. It is read once, and the job of a
/// token has its bytes without a copy. Only the dispatcher's thread uses it.
final class CampaignJob {
    let campaign: Campaign
    /// The index of its list.
    let list: Int
    /// The beginning of each claimed element.
    let prefix: [UInt8]
    /// The job with a token of two digits; `nil` with a fault, which every job of the campaign has.
    private let template: Job?
    private let fault: JobError?
    /// The index of its app; `nil` for a job that cannot be pushed.
    let app: Int?
    private var shared: SharedHeaders?
    /// The tokens that this daemon holds, and those that APNs has accepted.
    var held = 0
    var accepted = 0
    /// Tokens in flight before the first acceptance: as many as may fail, so that few are on their way when a campaign with a
    /// wrong payload stops, and that pending suspects suffice to stop one for a wrong environment. `nil` for one that never
    /// stops.
    private let first: Int?

    private static let digits = Array("00".utf8)

    init(_ campaign: Campaign, list: Int, reader: inout JobReader, routes: AppRoutes) {
        (self.campaign, self.list, prefix) = (campaign, list, CampaignToken.prefix(of: campaign.id))
        first = campaign.stop > 0 ? max(campaign.stop, Campaign.fewestFailures) : nil
        do throws(JobError) {
            var job = try reader.read(campaign.head + Self.digits + campaign.tail)
            if job.campaign == nil { job.join(campaign.id) }
            app = try routes.app(for: job)
            (template, fault) = (job, nil)
        } catch {
            (app, template, fault) = (nil, nil, error)
        }
    }

    /// Tokens that may be claimed: one more for each acceptance.
    var places: Int { first.map { max(0, $0 + accepted - held) } ?? .max }

    /// Whether it is the campaign of a claimed token.
    func owns(_ element: [UInt8]) -> Bool {
        if element.count < prefix.count { return false }
        return unsafe prefix.withUnsafeBytes { prefix in
            unsafe element.withUnsafeBytes { element in
                guard let left = prefix.baseAddress, let right = element.baseAddress else { return false }
                return unsafe memcmp(left, right, prefix.count) == 0
            }
        }
    }

    /// Returns the job of a token.
    func job(for element: [UInt8]) throws(JobError) -> Job {
        let token = element.span.extracting(prefix.count...)
        let isPlain = !token.isEmpty && token.count <= JobReader.longestToken && areHex(token)
        let (digits, start) = isPlain ? (element, prefix.count) : (try plainDigits(of: element), 0)
        guard let job = template?.with(Job.Member(digits, from: start, insteadOf: campaign.head.count)) else {
            throw fault ?? .structure("no job")
        }
        return job
    }

    /// The digits of a token with blanks or brackets.
    private func plainDigits(of element: [UInt8]) throws(JobError) -> [UInt8] {
        if let fault { throw fault }
        let digits = element[prefix.count...].filter { !Self.ignored.contains($0) }
        let fault: Job.TokenFault? =
            digits.isEmpty ? .empty : digits.count > JobReader.longestToken ? .tooLong : areHex(digits.span) ? nil : .notHex
        if let fault { throw .structure(fault.description) }
        return digits
    }

    /// Blanks, and the brackets of the old description of a token.
    private static let ignored = Array(" <>".utf8)

    /// The headers and the payload of its pushes.
    func headers(topicOfApp topic: String?) -> SharedHeaders? {
        if let shared, shared.topicOfSettings == topic { return shared }
        guard let job = template else { return nil }
        shared = SharedHeaders(
            topic: job.topic(ofApp: topic), topicOfSettings: job.topic == nil ? topic : nil, pushType: job.pushType,
            priority: job.priority, channel: nil, body: job.bytes)
        return shared
    }

    /// Returns the single-token form of the job for any token.
    func element(for claimed: [UInt8]) -> [UInt8] {
        var element = Array(campaign.head.dropLast())
        element.appendJSONString(utf8: Array(claimed[prefix.count...]))
        return element + campaign.tail.dropFirst()
    }
}

extension CampaignJob: Equatable {
    static func == (left: CampaignJob, right: CampaignJob) -> Bool { left === right }
}

extension Job {
    /// The order of a claimed job with `tokens_from`; `nil` for any other job.
    var order: CampaignOrder? {
        guard case .audience(let audience) = target, let frame else { return nil }
        return CampaignOrder(
            name: campaign, source: audience.key, head: frame.head + Array("\"token\":\"".utf8),
            tail: Array("\"".utf8) + frame.tail,
            over: audience.over.map { .seconds($0) }, stopAt: audience.stopAt)
    }

    /// The meaning of a settlement for its campaign; `nil` for a job of none, and for one that returns unchanged.
    ///
    /// - Parameter reason: of a dead letter.
    func outcome(of effect: Settlement.Effect, reason: String?) -> CampaignOutcome? {
        guard let campaign else { return nil }
        let kind: CampaignOutcome.Kind
        switch effect {
        case .ack: kind = .sent
        case .delay(_, _, let isRetry): kind = isRetry ? .retried : .returned
        case .deadLetter(_, let isExpired, _): kind = isExpired ? .expired : .dead(reason: reason ?? "")
        case .replace: kind = .returned
        case .slot(let entry) where entry.count != .released: kind = .returned
        case .release, .split, .slot: return nil
        }
        return CampaignOutcome(campaign: campaign, kind: kind, isToken: isMember)
    }
}

extension CampaignStart.Reason {
    /// The fault of the job.
    func fault(ofKey key: String) -> JobError {
        switch self {
        case .missing: .structure("tokens_from names the key \"\(key)\", which is missing or empty")
        case .wrongType(let type):
            .structure("tokens_from names the key \"\(key)\" of the type \(type); expected a list, set or sorted set")
        case .nameInUse(let name): .structure("campaign \"\(name)\" exists: it has not ended, or was cancelled within a day")
        case .reserved: .structure("tokens_from names the key \"\(key)\", which belongs to gaplessd")
        case .redis(let reply): .structure("tokens_from names the key \"\(key)\", and Redis refuses it (\(reply))")
        case .otherSlot:
            .structure("tokens_from names the key \"\(key)\", which is not in the hash slot of the list")
        }
    }
}
