internal import JSONBytes
import RedisQueue

/// The tokens of a campaign that this daemon holds, and those that APNs has accepted. Only the dispatcher's thread uses it.
final class CampaignStanding {
    var held = 0
    var accepted = 0
    /// Tokens in flight before the first acceptance: as many as may fail, so that few are on their way when a campaign with a
    /// wrong payload stops, and that pending suspects suffice to stop one for a wrong environment.
    private let first: Int

    /// `first` of a campaign that never stops.
    private static let usual = 100

    init(_ campaign: Campaign) {
        first = campaign.stop > 0 ? max(campaign.stop, Campaign.fewestFailures) : Self.usual
    }

    /// Tokens that may be claimed: one more for each acceptance.
    var places: Int { max(0, first + accepted - held) }
}

/// The job that all tokens of a campaign share. It is read once, and the job of a token has its bytes without a copy.
struct CampaignJob {
    let campaign: Campaign
    /// The job with a token of two digits, and the place of these; or the fault that every job of the campaign has.
    private let template: Result<Job, JobError>
    /// The index of its app; `nil` for a job that cannot be pushed.
    let app: Int?
    let standing: CampaignStanding

    private static let digits = Array("00".utf8)

    init(_ campaign: Campaign, reader: inout JobReader, routes: AppRoutes) {
        (self.campaign, standing) = (campaign, CampaignStanding(campaign))
        do throws(JobError) {
            var job = try reader.read(campaign.head + Self.digits + campaign.tail)
            if job.campaign == nil { job.join(campaign.id) }
            app = try routes.app(for: job)
            template = .success(job)
        } catch {
            app = nil
            template = .failure(error)
        }
    }

    /// Returns the job of one token.
    func job(for token: [UInt8]) throws(JobError) -> Job {
        let digits = areHex(token.span) ? token : token.filter { !Self.ignored.contains($0) }
        let fault: Job.TokenFault? =
            digits.isEmpty ? .empty : digits.count > JobReader.longestToken ? .tooLong : areHex(digits.span) ? nil : .notHex
        if let fault { throw .structure(fault.description) }
        var job = try template.get()
        let start = campaign.head.count
        job.target = .member(digits, start..<start + Self.digits.count)
        return job
    }

    /// Blanks, and the brackets of the old description of a token.
    private static let ignored = Array(" <>".utf8)

    /// Returns the single-token form of the job for any text.
    func element(for token: [UInt8]) -> [UInt8] {
        var element = Array(campaign.head.dropLast())
        element.appendJSONString(utf8: token)
        return element + campaign.tail.dropFirst()
    }
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
        case .nameInUse(let name): .structure("campaign \"\(name)\" exists and has not ended")
        case .reserved: .structure("tokens_from names the key \"\(key)\", which belongs to gaplessd")
        case .redis(let reply): .structure("tokens_from names the key \"\(key)\", and Redis refuses it (\(reply))")
        case .otherSlot:
            .structure("tokens_from names the key \"\(key)\", which is not in the hash slot of the list")
        }
    }
}
