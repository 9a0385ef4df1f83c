#if ServiceLifecycle
    public import ServiceLifecycle

    extension APNSClient: Service {
        /// Dials, waits for the graceful shutdown of the service group, and shuts down.
        public func run() async throws {
            do throws(APNSError) {
                try await start()
            } catch  where error.cause == .held || error.cause == .invalid { throw error } catch {}
            try? await gracefulShutdown()
            await shutdown()
        }
    }
#endif
