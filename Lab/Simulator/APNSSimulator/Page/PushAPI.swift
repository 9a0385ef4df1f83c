internal import JSONBytes

/// The pushes as JSON, for tests.
enum PushAPI {
    static func body(count: Int, _ pushes: [(RecentPush, LockScreenCard)]) -> [UInt8] {
        var json = Array("{\"count\":\(count),\"pushes\":[".utf8)
        for (index, (push, card)) in pushes.enumerated() {
            if index > 0 { json.append(UInt8(ascii: ",")) }
            append(push, card, to: &json)
        }
        json += Array("]}\n".utf8)
        return json
    }

    private static func append(_ push: RecentPush, _ card: LockScreenCard, to json: inout [UInt8]) {
        var isAccepted = false
        if case .accepted = push.verdict { isAccepted = true }
        var reason = ""
        if case .refused(_, let text) = push.verdict { reason = text }
        json += Array("{\"number\":\(push.number),\"time\":\(push.time),\"accepted\":\(isAccepted)".utf8)
        json += Array(",\"status\":\(push.verdict.status),\"broadcast\":\(push.isBroadcast)".utf8)
        let texts = [
            ("verdict", push.verdict.label), ("reason", reason), ("kind", card.kind.rawValue), ("token", push.token),
            ("title", card.title), ("subtitle", card.subtitle), ("body", card.body),
        ]
        for (name, text) in texts {
            json += Array(",\"\(name)\":".utf8)
            json.appendJSONString(text)
        }
        json += Array(",\"marks\":[\(card.marks.map(\.quotedJSON).joined(separator: ","))]".utf8)
        let headers = push.headers.map { "\($0.name.quotedJSON):\($0.value.quotedJSON)" }
        json += Array(",\"headers\":{\(headers.joined(separator: ","))},\"provider_token\":".utf8)
        if let token = push.providerToken {
            json += Array("{\"header\":".utf8) + token.header + Array(",\"claims\":".utf8) + token.claims + Array("}".utf8)
        } else {
            json += Array("null".utf8)
        }
        json += Array(",\"payload_bytes\":\(push.payloadLength),\"payload\":".utf8)
        if (try? JSONValue.parse(push.payload)) != nil {
            json += push.payload
        } else {
            json.appendJSONString(String(decoding: push.payload, as: UTF8.self))
        }
        json += Array("}".utf8)
    }
}
