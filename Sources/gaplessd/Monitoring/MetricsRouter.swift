import HTTP1
import Platform

/// Maps each path to its response. Used by any thread.
struct MetricsRouter: Sendable {
    /// The time that Redis has to respond. After it the response contains only the process's own figures.
    private static let timeout = Duration.seconds(2)

    private let board: ProcessBoard
    private let readings: RedisReadings
    private let log: Log
    private let started: WallClock
    private let history: Locked<History>
    private let options: Locked<PageFacts.Options>
    private let opened = Instant.now

    init(
        board: ProcessBoard, readings: RedisReadings, log: Log, started: WallClock, history: Locked<History>,
        options: Locked<PageFacts.Options>
    ) {
        (self.board, self.readings, self.log, self.started) = (board, readings, log, started)
        (self.history, self.options) = (history, options)
    }

    func reply(to path: String) -> StatusReply? {
        switch path {
        case "/metrics": later(metrics)
        case "/": later(withLetters: true, page)
        case "/healthz": .now(health)
        case "/readyz": .now(readiness)
        default: nil
        }
    }

    private func later(
        withLetters: Bool = false, _ response: @escaping @Sendable (RedisReading) -> StatusResponse
    ) -> StatusReply {
        .later(
            timeout: Self.timeout, begin: { done in readings.read(withLetters: withLetters) { done(response($0)) } },
            otherwise: { response(RedisReading(taken: .now, fault: "no response within \(Self.timeout.roundedSeconds) s")) })
    }

    private var health: StatusResponse {
        Readiness.isAlive(board.latest, started: opened, now: .now)
            ? StatusResponse(text: "ok\n") : StatusResponse(status: 503, text: "dispatcher loop stalled\n")
    }

    private var readiness: StatusResponse {
        let faults = Readiness.faults(board.latest, now: .now)
        if faults.isEmpty {
            return StatusResponse(text: (["ready"] + Readiness.pauses(board.latest)).map { $0 + "\n" }.joined())
        }
        return StatusResponse(status: 503, text: faults.map { $0 + "\n" }.joined())
    }

    private func metrics(_ reading: RedisReading) -> StatusResponse {
        let report = MetricsReport(
            reading, board.latest, .now(started: started), droppedLines: log.droppedLines, now: .now, wallClock: .now())
        return StatusResponse(contentType: PrometheusText.contentType, text: report.text)
    }

    private func page(_ reading: RedisReading) -> StatusResponse {
        let page = StatusPage(
            PageFacts(
                reading: reading, notice: board.latest, history: history.withLock { $0 }, system: .now(started: started),
                droppedLines: log.droppedLines, now: .now, wallClock: .now(), options: options.withLock { $0 }))
        return StatusResponse(contentType: "text/html; charset=utf-8", text: page.html)
    }
}
