/// The content of extension 1.2.840.113635.100.6.3.6: a sequence of pairs of a topic (UTF8String) and a sequence of its
/// services.
enum TopicList {
    static func encode(_ topics: [(name: String, service: String)]) -> [UInt8] {
        let pairs = topics.flatMap { topic in
            DER.encode(DER.utf8String, Array(topic.name.utf8))
                + DER.encode(DER.sequence, DER.encode(DER.utf8String, Array(topic.service.utf8)))
        }
        return DER.encode(DER.sequence, pairs)
    }

    /// Returns the topics without their services. Skips unreadable elements.
    static func decode(_ bytes: [UInt8]) -> [[UInt8]] {
        var outer = bytes[...]
        guard let list = DER.take(&outer), list.tag == DER.sequence else { return [] }
        var rest = list.content
        var topics: [[UInt8]] = []
        while let element = DER.take(&rest) {
            if element.tag == DER.utf8String { topics.append(Array(element.content)) }
        }
        return topics
    }
}
