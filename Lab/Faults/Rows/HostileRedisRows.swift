import Harness
import Platform
internal import RedisQueue

/// A Redis that is slow in every way, or replies with any error. The daemon also gets SIGTERM while these faults last.
extension Fault {
    static let hostileRedisRows = [bytewise, slowLink, late, errorReplies]

    private static let bytewise = Fault(
        number: 66, name: "redis-bytewise", title: "Redis sends and reads one byte at a time", rule: .nothingTwice, isQuick: true
    ) { trial in
        try trial.open(proxies: true)
        var daemon = try trial.start()
        try trial.produce(perSecond: 200)
        try trial.awaitSent(1)
        try trial.injectAgain(10) { turn in
            trial.redisProxy.behaviour.isBytewise = true
            let sent = try trial.stage.sent()
            try trial.awaitSent(sent + 200)
            if turn % 2 == 1 {
                try trial.terminate(daemon)
                daemon = try trial.start()
            }
            trial.redisProxy.behaviour.isBytewise = false
        }
    }

    /// A claim of 250 such jobs takes four seconds.
    private static let slowLink = Fault(
        number: 67, name: "redis-slow-link", title: "Redis at 1 Mbit/s, jobs of 2 KB", rule: .nothingTwice, stages: 5
    ) { trial in
        try trial.open(proxies: true, settings: ["drain_timeout": "5"])
        let proxy = trial.redisProxy
        (proxy.behaviour.bytesPerSecond, proxy.behaviour.queueBytes) = (125_000, 32 << 10)
        var daemon = try trial.start()
        let jobs = trial.scale == .full ? 600 : 300
        try trial.injectAgain(2) { _ in
            let (sent, start) = (try trial.stage.sent(), Instant.now)
            try trial.queue(jobs) { Trial.job($0, bytes: 1900) }
            try trial.awaitSent(sent + jobs / 3)
            try trial.terminate(daemon)
            daemon = try trial.start()
            // 600 jobs of 2 KB pass in ten seconds.
            try trial.awaitSent(sent + jobs, atMost: .seconds(60))
            // Without the 32 KB that the proxy holds.
            let least = Double(jobs * 1900 - 32 << 10) / 125_000
            if Instant.now - start < .seconds(least) { trial.fail("the jobs passed faster than the link") }
        }
        trial.afterwards = { status in
            let lost = trial.complaints("no response in time")
            if lost > 0 { trial.fail("the daemon gave up \(lost) connections on which bytes moved") }
        }
    }

    /// No reply arrives before the daemon gives up its connection. Some replies arrive after the fault.
    private static let late = Fault(
        number: 68, name: "redis-late", title: "Redis replies 60 s late", rule: .onlyWhatWasInFlight, stages: 5
    ) { trial in
        try trial.open(proxies: true, settings: ["drain_timeout": "2"])
        let proxy = trial.redisProxy
        var siege = try Siege(trial)
        try trial.produce(perSecond: 500)
        for turn in 1...trial.times(2) {
            let noticed = trial.complaints("no response in time")
            let isLong = trial.scale == .full && turn == 1
            try siege.run(stops: turn % 2 == 0, lasting: isLong ? .seconds(62) : .zero) {
                proxy.behaviour.delay = .seconds(60)
            } begun: {
                try trial.await("the daemon notices") { trial.complaints("no response in time") > noticed }
            } end: {
                proxy.behaviour.delay = .zero
            }
        }
    }

    /// Each text in place of the replies to all requests, then to some. Redis does not receive these requests.
    private static let errorReplies = Fault(
        number: 69, name: "redis-errors", title: "every error reply of Redis 6 and 7", rule: .nothingTwice, stages: 5
    ) { trial in
        try trial.open(proxies: true)
        let proxy = trial.redisProxy
        proxy.behaviour.refusals = [""]
        let daemon = try trial.start()
        try trial.produce(perSecond: 300)
        try trial.awaitSent(1)
        let texts = RedisErrorTexts.all
        for place in stride(from: trial.place, to: texts.count, by: trial.stages * (trial.scale == .full ? 1 : texts.count / 5)) {
            try trial.inject {
                for share in [1, 0.2] {
                    let refused = proxy.refused
                    (proxy.behaviour.refusals, proxy.behaviour.refusedShare) = ([texts[place]], share)
                    try trial.await("Redis refuses with '\(texts[place])'") { proxy.refused > refused }
                    trial.pause(0...300)
                }
                proxy.behaviour.refusedShare = 0
            }
            if let exit = daemon.process.poll() {
                throw TrialError(description: "gaplessd exited with \(exit) after '\(texts[place])':\n\(trial.logs)")
            }
        }
    }
}

/// The error replies of Redis 6 and 7, as their sources write them (server.c, networking.c, acl.c, cluster.c, script.c, t_*.c).
enum RedisErrorTexts {
    static let all = """
        ERR syntax error
        ERR no such key
        ERR index out of range
        ERR value is not an integer or out of range
        ERR value is out of range
        ERR hash value is not an integer
        ERR increment or decrement would overflow
        ERR string exceeds maximum allowed size (proto-max-bulk-len)
        ERR timeout is negative
        ERR unknown command 'EVALSHA', with args beginning with: 'x' '1'
        ERR unknown subcommand 'X'. Try CLIENT HELP.
        ERR wrong number of arguments for 'evalsha' command
        ERR max number of clients reached
        ERR max number of clients + cluster connections reached
        ERR Protocol error: invalid multibulk length
        ERR Protocol error: invalid bulk length
        ERR Protocol error: expected '$', got 'x'
        ERR Protocol error: too big inline request
        ERR unauthenticated multibulk length
        ERR DB index is out of range
        ERR invalid DB index
        ERR SELECT is not allowed in cluster mode
        ERR This instance has cluster support disabled
        ERR AUTH <password> called without any password configured for the default user. \
        Are you sure your configuration is correct?
        ERR Client sent AUTH, but no password is set
        ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'.
        ERR Error running script (call to f_1): @user_script: 1: Script killed by user with SCRIPT KILL...
        ERR Error compiling script (new function): user_script:1: '=' expected near 'x'
        ERR Script killed by user with SCRIPT KILL...
        ERR user_script:1: attempt to index a nil value script: f_1, on @user_script:1.
        ERR Write commands are not allowed from read-only scripts.
        ERR Number of keys can't be greater than number of args
        ERR operation not permitted
        ERR Can't execute 'blmove': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
        NOSCRIPT No matching script. Please use EVAL.
        NOSCRIPT No matching script.
        LOADING Redis is loading the dataset in memory
        BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.
        BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.
        BUSY Redis is busy running a module command.
        MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.
        MASTERDOWN Link with MASTER is down and slave-serve-stale-data is set to 'no'.
        MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.
        MISCONF Errors writing to the AOF file: No space left on device
        READONLY You can't write against a read only replica.
        READONLY You can't write against a read only slave.
        READONLY can't perform writes with a read only replica
        OOM command not allowed when used memory > 'maxmemory'.
        OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'
        NOREPLICAS Not enough good replicas to write.
        NOREPLICAS Can not run script with write flag on replica.
        EXECABORT Transaction discarded because of previous errors.
        EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.
        WRONGTYPE Operation against a key holding the wrong kind of value
        BUSYKEY Target key name already exists.
        BUSYGROUP Consumer Group name already exists
        NOGROUP No such key 'x' or consumer group 'y'
        UNBLOCKED client unblocked via CLIENT UNBLOCK
        UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)
        UNBLOCKED the stream key no longer exists
        NOAUTH Authentication required.
        NOAUTH HELLO must be called with the client already authenticated, \
        otherwise the HELLO AUTH <user> <pass> option can be used
        WRONGPASS invalid username-password pair or user is disabled.
        NOPROTO unsupported protocol version
        NOPERM this user has no permissions to run the 'evalsha' command
        NOPERM this user has no permissions to run the 'evalsha' command or its subcommand
        NOPERM this user has no permissions to access one of the keys used as arguments
        NOPERM this user has no permissions to access the 'q' key
        NOPERM No permissions to access a key
        NOPERM The user executing the script can't run this command or subcommand
        NOPERM The user executing the script can't access at least one of the keys mentioned in the command arguments
        DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user.
        CROSSSLOT Keys in request don't hash to the same slot
        MOVED 3999 127.0.0.1:1
        MOVED 3999 ?:0
        MOVED 3999
        ASK 3999 127.0.0.1:1
        ASK
        TRYAGAIN Multiple keys request during rehashing of slot
        CLUSTERDOWN The cluster is down
        CLUSTERDOWN Hash slot not served
        CLUSTERDOWN The cluster is down and only accepts read commands
        INPROG Failover already in progress
        NOGOODSLAVE No suitable replica to promote
        NOMASTERLINK Can't SYNC while not connected with my master
        UNKILLABLE Sorry the script already executed write commands against the dataset.
        NOTBUSY No scripts in execution right now.
        IOERR error or timeout reading to target instance
        STALE The replica is not up to date
        ERR

        """.split(separator: "\n", omittingEmptySubsequences: true).map(String.init) + [""]
}
