import Harness
internal import RedisQueue

/// Faults of Redis and of the way to it.
extension Fault {
    static let redisRows = [redisKilled, redisCut]

    private static let redisKilled = Fault(
        number: 13, name: "redis-kill", title: "kill -9 of Redis, append-only file", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(redis: ["--appendonly", "yes", "--appendfsync", "always"])
        try trial.start()
        trial.produce()
        for _ in 1...trial.times(10) {
            trial.pause(100...500)
            try trial.strike {
                trial.stage.redis.kill()
                trial.pause(5...300)
                try trial.stage.redis.restart()
                try trial.stage.reconnect()
            }
        }
    }

    private static let redisCut = Fault(
        number: 20, name: "redis-cut", title: "all Redis connections cut", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open()
        try trial.start()
        trial.produce()
        for _ in 1...trial.times(50) {
            trial.pause(5...100)
            try trial.strike { try trial.stage.killClients() }
        }
    }
}
