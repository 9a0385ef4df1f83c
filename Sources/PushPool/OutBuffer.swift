/// Bytes on their way to the socket, counted from the connection's first.
struct OutBuffer: ~Copyable {
    private var storage: UnsafeMutableRawPointer
    private var capacity: Int
    private var head = 0
    private var tail = 0

    /// Bytes that have been taken out by `consume`, of the whole connection.
    private(set) var written: UInt64 = 0

    init(capacity: Int = 32 << 10) {
        self.capacity = capacity
        storage = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { storage.deallocate() }

    var count: Int { tail - head }

    mutating func append(_ bytes: Span<UInt8>) {
        if tail + bytes.count > capacity { makeRoom(for: bytes.count) }
        bytes.withUnsafeBytes { (storage + tail).copyMemory(from: $0.baseAddress!, byteCount: $0.count) }
        tail += bytes.count
    }

    /// The oldest bytes, at most `most` of them, for the time of `body`.
    func withFirst<Result>(_ most: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        body(UnsafeRawBufferPointer(start: storage + head, count: min(most, count)))
    }

    /// The oldest `count` bytes have gone.
    mutating func consume(_ count: Int) {
        head += count
        written += UInt64(count)
        if head == tail {
            head = 0
            tail = 0
        }
    }

    private mutating func makeRoom(for more: Int) {
        let used = count
        if used + more <= capacity {
            storage.copyMemory(from: storage + head, byteCount: used)
        } else {
            while used + more > capacity { capacity *= 2 }
            let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
            larger.copyMemory(from: storage + head, byteCount: used)
            storage.deallocate()
            storage = larger
        }
        head = 0
        tail = used
    }
}
