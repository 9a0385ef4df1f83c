import JSONBytes

extension PauseNote {
    /// The pause for `status` and `audit`. Times are Unix seconds.
    func object(list: String) -> JSONValue {
        .members([
            "list": .string(list), "app": .optional(app), "until": until.map { .integer($0 / 1000) } ?? .null,
            "since": since.map { .integer($0 / 1000) } ?? .null, "reason": .optional(reason), "by": .optional(by),
        ])
    }
}
