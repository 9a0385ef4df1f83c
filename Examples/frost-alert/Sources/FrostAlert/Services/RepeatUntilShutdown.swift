internal import Logging
internal import ServiceLifecycle

/// Repeats a step until the shutdown. A step that fails is logged and repeated after a pause, which doubles up to a minute.
func repeatUntilShutdown(_ name: String, _ logger: Logger, step: @escaping @Sendable () async throws -> Void) async {
    await cancelWhenGracefulShutdown {
        var pause = Duration.seconds(1)
        while !Task.isCancelled {
            do {
                try await step()
                pause = .seconds(1)
            } catch is CancellationError {
                return
            } catch {
                logger.error("\(name) failed; next attempt in \(pause): \(error)")
                try? await Task.sleep(for: pause)
                pause = min(pause * 2, .seconds(60))
            }
        }
    }
}
