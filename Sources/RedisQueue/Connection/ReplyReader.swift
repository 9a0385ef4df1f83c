internal import CHiredis

/// One `redisReader` of hiredis: bytes in, replies out. Never touches a socket.
///
/// hiredis calls back for each value that it has read, and the callback makes a `RedisReply` of it: no `redisReply` is
/// allocated, and a job's bytes are copied once.
@safe struct ReplyReader: ~Copyable {
    /// A reply while it is read: the callbacks write into it. The innermost open array is separate, because nearly all values go
    /// there.
    private struct Nesting {
        private var items: [RedisReply] = []
        /// The number of values that the innermost array still lacks; 0 while no array is open.
        private var missing = 0
        /// The arrays around it, the outermost first.
        private var outer: [(items: [RedisReply], missing: Int)] = []
        private var finished: RedisReply?

        mutating func take() -> RedisReply? { finished.take() }

        mutating func add(_ reply: consuming RedisReply) {
            if missing == 0 {
                finished = reply
                return
            }
            items.append(reply)
            missing -= 1
            if missing == 0 { close() }
        }

        mutating func openArray(of count: Int) {
            if count <= 0 { return add(.array([])) }
            if missing > 0 { outer.append((items, missing)) }
            items = []
            items.reserveCapacity(min(count, 1024))  // The peer chooses the number, and must not choose how much is allocated.
            missing = count
        }

        private mutating func close() {
            let array = RedisReply.array(items)
            (items, missing) = outer.popLast() ?? ([], 0)
            add(array)
        }
    }

    private let reader: UnsafeMutablePointer<redisReader>
    /// Memory of its own, and no object: C has its address, and a callback runs for each job.
    private let nesting: UnsafeMutablePointer<Nesting>

    init() {
        guard let reader = unsafe redisReaderCreateWithFunctions(ReplyReader.functions) else {
            preconditionFailure("no memory for a redisReader")
        }
        unsafe self.reader = unsafe reader
        unsafe nesting = .allocate(capacity: 1)
        unsafe nesting.initialize(to: Nesting())
        unsafe reader.pointee.privdata = UnsafeMutableRawPointer(nesting)
        // Keep the buffer between batches, but not that of a huge job.
        unsafe reader.pointee.maxbuf = 1 << 20
    }

    deinit {
        unsafe redisReaderFree(reader)
        unsafe nesting.deinitialize(count: 1)
        unsafe nesting.deallocate()
    }

    /// Feeds the first `count` bytes of `buffer`.
    mutating func feed(_ buffer: borrowing [UInt8], count: Int) {
        unsafe buffer.withUnsafeBytes { raw in
            // It fails for lack of memory, or after an error, which `next` then reports again.
            _ = unsafe redisReaderFeed(reader, raw.baseAddress?.assumingMemoryBound(to: CChar.self), min(count, raw.count))
        }
    }

    /// Returns the next complete reply.
    mutating func next() throws(RedisError) -> RedisReply? {
        var marker: UnsafeMutableRawPointer?
        guard unsafe redisReaderGetReply(reader, &marker) == REDIS_OK else {
            let text = unsafe withUnsafeBytes(of: reader.pointee.errstr) {
                unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            throw .notRedis(text)
        }
        return unsafe marker == nil ? nil : nesting.pointee.take()
    }

    // Written once, at the first use. From then on hiredis only reads it.
    private nonisolated(unsafe) static let functions: UnsafeMutablePointer<redisReplyObjectFunctions> = {
        var functions = redisReplyObjectFunctions()
        unsafe functions.createString = { task, text, length in
            guard let task = unsafe task, let nesting = unsafe ReplyReader.nesting(of: task) else { return nil }
            let bytes = unsafe UnsafeRawBufferPointer(start: text, count: Int(length))
            switch unsafe task.pointee.type {
            case REDIS_REPLY_STATUS: unsafe nesting.pointee.add(.status(String(decoding: bytes, as: UTF8.self)))
            case REDIS_REPLY_ERROR: unsafe nesting.pointee.add(.error(ErrorReply(String(decoding: bytes, as: UTF8.self))))
            default: unsafe nesting.pointee.add(.string(Array(bytes)))
            }
            return unsafe task.pointee.privdata
        }
        unsafe functions.createArray = { task, count in
            guard let task = unsafe task, let nesting = unsafe ReplyReader.nesting(of: task) else { return nil }
            unsafe nesting.pointee.openArray(of: Int(count))
            return unsafe task.pointee.privdata
        }
        unsafe functions.createInteger = { task, number in
            guard let task = unsafe task, let nesting = unsafe ReplyReader.nesting(of: task) else { return nil }
            unsafe nesting.pointee.add(.integer(Int64(number)))
            return unsafe task.pointee.privdata
        }
        unsafe functions.createNil = { task in
            guard let task = unsafe task, let nesting = unsafe ReplyReader.nesting(of: task) else { return nil }
            unsafe nesting.pointee.add(.null)
            return unsafe task.pointee.privdata
        }
        unsafe functions.freeObject = { _ in }  // Every object is the nesting.
        let place = UnsafeMutablePointer<redisReplyObjectFunctions>.allocate(capacity: 1)
        unsafe place.initialize(to: functions)
        return unsafe place
    }()

    /// hiredis gives each task the reader's `privdata`.
    private static func nesting(of task: UnsafePointer<redisReadTask>) -> UnsafeMutablePointer<Nesting>? {
        unsafe task.pointee.privdata?.assumingMemoryBound(to: Nesting.self)
    }
}
