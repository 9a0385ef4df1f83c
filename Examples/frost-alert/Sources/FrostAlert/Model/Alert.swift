import Foundation

/// One alert: for one device, one of its locations and one forecast cycle.
struct Alert: Equatable, Sendable {
    /// Unique in the database and rising. Results return it as the identifier of the job.
    var number: Int64
    /// The forecast cycle.
    var cycle: Int64
    var token: DeviceToken
    var location: Location
    var frost: Frost
}

extension Alert {
    /// The job for gaplessd, as JSON text.
    ///
    /// Alerts for one place have the same collapse id, so that the phone shows only the newest one. The job expires at the cold
    /// hour: from then on the alert is of no use.
    var job: String {
        get throws {
            let text = Job.Text(title: "Frost", subtitle: "Frost Alert for \(location.name)", body: body)
            let job = Job(
                token: token.hex, identifier: number, expiresAt: Int(frost.time.timeIntervalSince1970),
                collapseId: "frost \(location.place.latitude),\(location.place.longitude)", trace: "frost cycle \(cycle)",
                data: Job.Payload(aps: Job.Aps(alert: text)))
            let encoder = JSONEncoder()
            encoder.keyEncodingStrategy = .convertToSnakeCase
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(job), as: UTF8.self)
        }
    }

    /// For example: Down to -2 °C on Wednesday at 05:00.
    private var body: String {
        let degrees = location.unit.text(celsius: frost.celsius)
        let clock = frost.localTime.split(separator: "T").last ?? ""
        return "Down to \(degrees) on \(weekday) at \(clock)."
    }

    private var weekday: String {
        let parts = frost.localTime.prefix(10).split(separator: "-").compactMap { Int($0) }
        guard parts.count == 3,
            let day = Calendar.greenwich.date(from: DateComponents(year: parts[0], month: parts[1], day: parts[2]))
        else { return "the coming days" }
        let number = Calendar.greenwich.component(.weekday, from: day)
        return ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"][number - 1]
    }

    /// The names are those of the job in camel case.
    private struct Job: Encodable {
        struct Payload: Encodable { var aps: Aps }

        struct Aps: Encodable {
            var alert: Text
            var sound = "default"
        }

        struct Text: Encodable {
            var title: String
            var subtitle: String
            var body: String
        }

        var token: String
        var identifier: Int64
        var expiresAt: Int
        var collapseId: String
        var trace: String
        var pushType = "alert"
        var data: Payload
    }
}
