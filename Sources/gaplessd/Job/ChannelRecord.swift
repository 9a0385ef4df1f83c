import JSONBytes
import Platform
import PushPool
import RedisQueue

/// A channel by the name that jobs give it. Names are those of one app: two apps may use the same one.
struct ChannelName: Sendable, Hashable {
    /// Empty for the top level.
    var app: String
    var name: String

    /// Bytes of a name.
    static let longest = 64

    /// The fields of the hash that may have its record. The first one has it, unless another app has the same name there.
    var fields: [String] { [name, "\(app)/\(name)"] }

    /// As in `match-1` or `match-1 of app "beta"`, for messages.
    var text: String { "\"\(name.printable)\"" + (app.isEmpty ? "" : " of app \"\(app.printable)\"") }
}

/// The record of a channel in `{Q}:gapless:channels`, as docs/redis.md has it: producers read it.
struct ChannelRecord: Sendable, Equatable {
    var name: ChannelName
    var id: String
    var storage: ChannelCall.Storage
    /// `production`, `sandbox`, or the host of another server. An id is not valid in another environment.
    var environment: String
    /// Unix seconds.
    var created: Int64
    /// Unix seconds of the last accepted `end`.
    var ended: Int64?

    init(
        _ name: ChannelName, id: String, storage: ChannelCall.Storage, environment: String, created: Int64, ended: Int64? = nil
    ) {
        (self.name, self.id, self.storage, self.environment) = (name, id, storage, environment)
        (self.created, self.ended) = (created, ended)
    }

    /// `nil` for a text of another form.
    init?(_ bytes: [UInt8]) {
        guard let object = try? JSONValue.parse(bytes), let id = object["id"]?.stringValue, ChannelCall.isID(id),
            let name = object["name"]?.stringValue,
            let storage = object["storage"]?.stringValue.flatMap(ChannelCall.Storage.init)
        else { return nil }
        self.init(
            ChannelName(app: object["app"]?.stringValue ?? "", name: name), id: id, storage: storage,
            environment: object["environment"]?.stringValue ?? "", created: object["created"]?.integerValue ?? 0,
            ended: object["ended"]?.integerValue)
    }

    var json: JSONValue {
        .members([
            "id": .string(id), "storage": .string(storage.rawValue), "environment": .string(environment),
            "created": .integer(created), "ended": ended.map { .integer($0) } ?? .null, "app": .string(name.app),
            "name": .string(name.name),
        ])
    }

    var bytes: [UInt8] { Array(json.line.utf8) }
}

/// The records of the fields of one name, as Redis has them.
struct ChannelEntry: Sendable {
    private let name: ChannelName
    private let records: [[UInt8]?]

    /// - Parameter records: of `name.fields`.
    init(_ name: ChannelName, _ records: [[UInt8]?]) { (self.name, self.records) = (name, records) }

    /// The field and the record of the channel; `nil` if there is none.
    private var own: (field: String, record: ChannelRecord, bytes: [UInt8])? {
        for (field, bytes) in zip(name.fields, records) {
            if let bytes, let record = ChannelRecord(bytes), record.name == name { return (field, record, bytes) }
        }
        return nil
    }

    /// The record, also one of another environment.
    var record: ChannelRecord? { own?.record }

    /// Returns the record if its id is valid in the environment.
    func record(in environment: String) -> ChannelRecord? {
        own.flatMap { $0.record.environment == environment ? $0.record : nil }
    }

    /// Replaces the record of the name, also one of another environment, or adds one to the first field without a record of
    /// another app. A record of another form is replaced.
    ///
    /// - Parameter record: `nil` removes it.
    func change(to record: ChannelRecord?, deletion: Duration? = nil) -> ChannelRecords.Change {
        let creation = record == nil ? nil : name.fields[1]
        if let own {
            return .init(own.field, from: own.bytes, to: record?.bytes, creation: creation, deletion: deletion)
        }
        let isFree = records.first.flatMap { $0 }.flatMap(ChannelRecord.init) == nil
        let place = isFree ? 0 : 1
        return .init(
            name.fields[place], from: records[place], to: record?.bytes, creation: creation, deletion: deletion)
    }

    static func read(
        _ name: ChannelName, _ records: ChannelRecords, _ client: inout RedisClient
    ) throws(RedisError) -> ChannelEntry {
        ChannelEntry(name, try records.read(name.fields, &client))
    }
}
