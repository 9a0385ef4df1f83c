import CLinux
import Glibc

/// The memory that code and constants take: pages of files, which the kernel brings back whenever they are touched.
enum ProgramPages {
    /// Lets go of all that the start has touched: the parsers of the command line and the settings, the linker's tables, OpenSSL's
    /// beginnings. What is still needed comes back from the page cache, in pieces of 64 KiB.
    ///
    /// Only segments that no process can write are touched: to drop a page that was written to would undo its writing (madvise(2)).
    static func release() {
        _ = dl_iterate_phdr(
            { object, _, _ in
                guard let object = object?.pointee else { return 0 }
                let page = UInt(sysconf(CInt(_SC_PAGESIZE)))
                for header in UnsafeBufferPointer(start: object.headers, count: Int(object.header_count))
                where header.p_type == PT_LOAD && header.p_flags & UInt32(PF_W) == 0 {
                    let first = (UInt(object.base) + UInt(header.p_vaddr)) / page * page
                    let end = UInt(object.base) + UInt(header.p_vaddr) + UInt(header.p_memsz)
                    madvise(UnsafeMutableRawPointer(bitPattern: first), Int(end - first), MADV_DONTNEED)
                }
                return 0
            }, nil)
    }
}
