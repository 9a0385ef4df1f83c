import ArgumentParser
import Glibc
import RedisQueue

extension RedisAccess {
    /// Runs a whole call on one connection. A fault of Redis is one line on stderr, and the exit status.
    static func run(_ settings: Settings, _ body: (inout RedisClient) throws -> Void) throws {
        do {
            var client = try open(settings)
            try body(&client)
        } catch RedisError.reply(let reply) where reply.kind == .wrongType {
            throw ProbeError.refused(settings, faults(behind: .reply(reply), settings)).told("redis")
        } catch let error as RedisError {
            throw ProbeError(error, of: settings).told("redis")
        } catch let fault as ProbeError {
            throw fault.told("redis")
        }
    }
}

extension ProbeError {
    /// Reports the error on stderr and returns the exit status of the call.
    func told(_ service: String, adding more: String = "") -> ExitCode {
        StandardStreams.print(["\(service): \(self)\(more)"], to: STDERR_FILENO)
        return isOurs ? .settingsFault : .serviceUnavailable
    }
}
