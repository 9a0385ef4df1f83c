import Glibc
import RedisQueue

/// The checks of Redis in `check`.
enum RedisProbe {
    static func run(_ settings: Settings) throws(ProbeError) -> String {
        var client = try RedisAccess.open(settings)
        let rights: [UserRights]
        let wrong: [SettingsError]
        do throws(RedisError) {
            wrong = try KeyTypes(allOf: settings).faults(&client)
            rights = try RedisAccess.rights(&client, settings)
        } catch {
            throw ProbeError(error, of: settings)
        }
        let crossing = rights.compactMap(\.crossing).map { RedisRefusal.crossing($0, settings).line }
        let faults = wrong.map(\.line) + rights.flatMap(\.faults).unique + crossing.unique
        let shortage = rights.lazy.compactMap(\.shortage).first.map {
            "\($0) No producer can push; expected a larger maxmemory"
        }
        guard faults.isEmpty else { throw .refused(settings, faults + [shortage].compactMap(\.self)) }
        if let shortage { throw .failed("\(settings.redis.server.text): \(shortage)") }
        return (["ok, \(settings.redis.server.text)"] + rights.flatMap(\.remarks).unique).joined(separator: "; ")
    }
}
