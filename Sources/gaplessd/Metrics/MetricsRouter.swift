import Clocks
import Glibc
import Sockets
import StatusServer
import Threads

/// What is at which path. Any thread.
struct MetricsRouter: Sendable {
    /// For Redis; then the answer goes out with what the process knows itself.
    private static let patience = Duration.seconds(2)

    private let board: ProcessBoard
    private let readings: RedisReadings
    private let log: Log
    private let started: WallClock
    private let opened = Instant.now

    init(board: ProcessBoard, readings: RedisReadings, log: Log, started: WallClock) {
        (self.board, self.readings, self.log, self.started) = (board, readings, log, started)
    }

    func reply(to path: String) -> StatusReply? {
        switch path {
        case "/metrics": later(metrics)
        case "/": later(page)
        case "/healthz": .now(health)
        case "/readyz": .now(readiness)
        default: nil
        }
    }

    private func later(_ answer: @escaping @Sendable (RedisReading) -> StatusResponse) -> StatusReply {
        .later(
            patience: Self.patience, begin: { done in readings.read { done(answer($0)) } },
            otherwise: { answer(RedisReading(taken: .now, fault: "no answer within \(Self.patience.roundedSeconds) s")) })
    }

    private var health: StatusResponse {
        Readiness.isAlive(board.latest, started: opened, now: .now)
            ? StatusResponse(text: "ok\n") : StatusResponse(status: 503, text: "the dispatcher does not turn\n")
    }

    private var readiness: StatusResponse {
        let faults = Readiness.faults(board.latest, now: .now)
        if faults.isEmpty { return StatusResponse(text: "ready\n") }
        return StatusResponse(status: 503, text: faults.map { $0 + "\n" }.joined())
    }

    private func metrics(_ reading: RedisReading) -> StatusResponse {
        let report = MetricsReport(
            reading, board.latest, .now(started: started), droppedLines: log.droppedLines, now: .now, wallClock: .now())
        return StatusResponse(contentType: PrometheusText.contentType, text: report.text)
    }

    private func page(_ reading: RedisReading) -> StatusResponse {
        let page = StatusPage(
            reading, board.latest, .now(started: started), droppedLines: log.droppedLines, now: .now, wallClock: .now())
        return StatusResponse(contentType: "text/html; charset=utf-8", text: page.html)
    }
}
