internal import CHiredis

/// One `redisReader` of hiredis: bytes in, replies out. Never touches a socket.
///
/// hiredis calls back for each value it has read, and the value becomes a `RedisReply` right there: no `redisReply` is
/// ever allocated, and a job's bytes are copied once.
struct ReplyReader: ~Copyable {
    /// What the callbacks write into. C borrows it; this struct keeps it alive.
    private final class Builder {
        private var open: [(missing: Int, items: [RedisReply])] = []
        private(set) var finished: RedisReply?

        func add(_ reply: RedisReply) {
            var reply = reply
            while let last = open.indices.last {
                open[last].items.append(reply)
                open[last].missing -= 1
                if open[last].missing > 0 { return }
                reply = .array(open.removeLast().items)
            }
            finished = reply
        }

        func openArray(of count: Int) {
            if count <= 0 { return add(.array([])) }
            var items: [RedisReply] = []
            items.reserveCapacity(min(count, 1024))  // The peer says the number: it must not make us allocate at will.
            open.append((count, items))
        }

        func take() -> RedisReply? {
            defer { finished = nil }
            return finished
        }
    }

    private let reader: UnsafeMutablePointer<redisReader>
    private let builder = Builder()

    init() {
        guard let reader = redisReaderCreateWithFunctions(ReplyReader.functions) else {
            preconditionFailure("no memory for a redisReader")
        }
        self.reader = reader
        reader.pointee.privdata = Unmanaged.passUnretained(builder).toOpaque()
        reader.pointee.maxbuf = 0  // Keep the buffer between batches.
    }

    deinit { redisReaderFree(reader) }

    /// Takes in the first `count` bytes of `buffer`.
    mutating func feed(_ buffer: borrowing [UInt8], count: Int) {
        buffer.withUnsafeBytes { raw in
            // It fails on a lack of memory, or after an error; the latter is what `next` then reports again.
            _ = redisReaderFeed(reader, raw.baseAddress?.assumingMemoryBound(to: CChar.self), min(count, raw.count))
        }
    }

    /// The next reply that is complete.
    mutating func next() throws(RedisError) -> RedisReply? {
        var marker: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &marker) == REDIS_OK else {
            let text = withUnsafeBytes(of: reader.pointee.errstr) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            throw .notRedis(text)
        }
        return marker == nil ? nil : builder.take()
    }

    // Written once, when first used, and only read by hiredis from then on.
    private nonisolated(unsafe) static let functions: UnsafeMutablePointer<redisReplyObjectFunctions> = {
        var functions = redisReplyObjectFunctions()
        functions.createString = { task, text, length in
            guard let task, let builder = ReplyReader.builder(of: task) else { return nil }
            let bytes = UnsafeRawBufferPointer(start: text, count: Int(length))
            switch task.pointee.type {
            case REDIS_REPLY_STATUS: builder.add(.status(String(decoding: bytes, as: UTF8.self)))
            case REDIS_REPLY_ERROR: builder.add(.error(String(decoding: bytes, as: UTF8.self)))
            default: builder.add(.string(Array(bytes)))
            }
            return task.pointee.privdata
        }
        functions.createArray = { task, count in
            guard let task, let builder = ReplyReader.builder(of: task) else { return nil }
            builder.openArray(of: Int(count))
            return task.pointee.privdata
        }
        functions.createInteger = { task, number in
            guard let task, let builder = ReplyReader.builder(of: task) else { return nil }
            builder.add(.integer(Int64(number)))
            return task.pointee.privdata
        }
        functions.createNil = { task in
            guard let task, let builder = ReplyReader.builder(of: task) else { return nil }
            builder.add(.null)
            return task.pointee.privdata
        }
        functions.freeObject = { _ in }  // The objects are the builder itself.
        let place = UnsafeMutablePointer<redisReplyObjectFunctions>.allocate(capacity: 1)
        place.initialize(to: functions)
        return place
    }()

    /// hiredis hands each task the reader's `privdata`.
    private static func builder(of task: UnsafePointer<redisReadTask>) -> Builder? {
        guard let context = task.pointee.privdata else { return nil }
        return Unmanaged<Builder>.fromOpaque(context).takeUnretainedValue()
    }
}
