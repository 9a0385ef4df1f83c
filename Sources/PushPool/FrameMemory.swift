internal import CNghttp2
internal import Glibc

/// nghttp2's memory: blocks it gives back are kept by size and handed out again.
///
/// A push makes nghttp2 allocate and free about ten small blocks; with malloc(3) that is 2,100 instructions, so 400.
/// Used on one thread. Holds no more than was in use at one time.
final class FrameMemory {
    /// Before every block lies the number of its size; 16 bytes keep the block aligned.
    private static let headerBytes = 16
    private static let stepBytes = 64
    /// Larger blocks come from malloc(3) each time: frame buffers, which live as long as a session.
    private static let sizes = 16

    /// The first free block of each size; each free block begins with the address of the next.
    private let free: UnsafeMutablePointer<UnsafeMutableRawPointer?>

    init() {
        free = .allocate(capacity: FrameMemory.sizes)
        free.initialize(repeating: nil, count: FrameMemory.sizes)
    }

    /// Everything must have been given back.
    deinit {
        for size in 0..<FrameMemory.sizes {
            while let block = take(size) { Glibc.free(block - FrameMemory.headerBytes) }
        }
        free.deallocate()
    }

    /// For `nghttp2_session_client_new3`, which copies it. This object must outlive the session.
    var callbacks: nghttp2_mem {
        nghttp2_mem(
            mem_user_data: Unmanaged.passUnretained(self).toOpaque(),
            malloc: { count, context in FrameMemory.with(context)?.allocate(count) },
            free: { block, context in
                if let block { FrameMemory.with(context)?.giveBack(block) }
            },
            calloc: { items, bytes, context in
                let (count, isTooMuch) = items.multipliedReportingOverflow(by: bytes)
                guard !isTooMuch, let block = FrameMemory.with(context)?.allocate(count) else { return nil }
                return memset(block, 0, count)
            },
            realloc: { block, count, context in FrameMemory.with(context)?.resize(block, count) })
    }

    private static func with(_ context: UnsafeMutableRawPointer?) -> FrameMemory? {
        context.map { Unmanaged<FrameMemory>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func sizeOf(_ block: UnsafeMutableRawPointer) -> UnsafeMutablePointer<Int> {
        (block - headerBytes).assumingMemoryBound(to: Int.self)
    }

    private func take(_ size: Int) -> UnsafeMutableRawPointer? {
        guard let block = free[size] else { return nil }
        free[size] = block.load(as: UnsafeMutableRawPointer?.self)
        return block
    }

    func allocate(_ count: Int) -> UnsafeMutableRawPointer? {
        let size = max(0, count - 1) / FrameMemory.stepBytes
        if size < FrameMemory.sizes, let block = take(size) { return block }
        guard let start = malloc((size + 1) * FrameMemory.stepBytes + FrameMemory.headerBytes) else { return nil }
        let block = start + FrameMemory.headerBytes
        FrameMemory.sizeOf(block).pointee = size
        return block
    }

    func giveBack(_ block: UnsafeMutableRawPointer) {
        let size = FrameMemory.sizeOf(block).pointee
        if size >= FrameMemory.sizes { return Glibc.free(block - FrameMemory.headerBytes) }
        block.storeBytes(of: free[size], as: UnsafeMutableRawPointer?.self)
        free[size] = block
    }

    func resize(_ block: UnsafeMutableRawPointer?, _ count: Int) -> UnsafeMutableRawPointer? {
        guard let block else { return allocate(count) }
        let room = (FrameMemory.sizeOf(block).pointee + 1) * FrameMemory.stepBytes
        if count <= room && room - count < FrameMemory.stepBytes { return block }
        guard let other = allocate(count) else { return nil }
        memcpy(other, block, min(room, count))
        giveBack(block)
        return other
    }
}
