import Glibc
import RedisQueue

/// What `check` wants of Redis.
enum RedisProbe {
    static func run(_ settings: Settings) throws(ProbeError) -> String {
        var client = try RedisAccess.open(settings)
        let rights: [UserRights]
        let wrong: [SettingsError]
        do throws(RedisError) {
            wrong = try KeyTypes(allOf: settings).faults(&client)
            rights = try RedisRefusal.rights(&client, settings)
        } catch {
            throw ProbeError(error, of: settings)
        }
        let lacks = rights.flatMap(\.faults).unique.map { fault in
            fault.hasPrefix("CROSSSLOT") ? RedisRefusal.fault(fault, settings).line : fault
        }
        let faults = wrong.map(\.line) + lacks
        let shortage = rights.lazy.compactMap(\.shortage).first.map {
            "\($0) No producer can push: more maxmemory would be right"
        }
        guard faults.isEmpty else { throw .refused(settings, faults + [shortage].compactMap(\.self)) }
        if let shortage { throw .failed("\(settings.redis.server.text): \(shortage)") }
        return (["ok, \(settings.redis.server.text)"] + rights.flatMap(\.remarks).unique).joined(separator: "; ")
    }
}
