import Glibc
import Platform

/// The folder of `apps_dir`: the files of its apps as they were last read, and those that have changed since.
///
/// A file is read when two looks in a row find the same change, so that a file that is being written or replaced is left alone.
/// Symbolic links are followed: a swap of the link of a whole folder (Kubernetes) changes every file behind it.
struct AppFolder: Sendable {
    /// Two looks and the reading take less than two seconds.
    static let interval = Duration.milliseconds(500)
    private static let suffix = ".json"

    let path: String
    /// By name of the app.
    private var known: [String: FileStamp]
    /// The changes that the previous look found; the stamp is `nil` for a file that is gone.
    private var changes: [String: FileStamp?] = [:]

    /// Looks at the files, which are read after this.
    init(_ path: String) throws(FileBytes.Fault) {
        self.path = path
        known = try Self.stamps(in: path)
    }

    /// The names of the apps, in order.
    var apps: [String] { known.keys.sorted() }

    func file(of app: String) -> String { "\(path)/\(app)\(Self.suffix)" }

    func has(_ app: String) -> Bool { known[app] != nil }

    /// Returns the names of the apps whose files have changed, appeared or gone, and are not changing now. A folder that cannot
    /// be read has not changed.
    mutating func look() -> [String] {
        guard let present = try? Self.stamps(in: path) else { return [] }
        var found: [String: FileStamp?] = [:]
        for (app, stamp) in present where known[app] != stamp { found[app] = .some(stamp) }
        for app in known.keys where present[app] == nil { found[app] = .some(nil) }
        var settled: [String] = []
        for (app, stamp) in found where changes[app] == .some(stamp) {
            known[app] = stamp
            settled.append(app)
        }
        changes = found.filter { known[$0.key] != $0.value }
        return settled.sorted()
    }

    /// The files `NAME.json`. Hidden files, among them those of a folder of Kubernetes, belong to no app.
    private static func stamps(in path: String) throws(FileBytes.Fault) -> [String: FileStamp] {
        guard let folder = unsafe opendir(path) else { throw .system(errno) }
        defer { unsafe closedir(folder) }
        var stamps: [String: FileStamp] = [:]
        while let entry = unsafe readdir(folder) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                unsafe pointer.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { unsafe String(cString: $0) }
            }
            guard name.hasSuffix(suffix), !name.hasPrefix("."), let stamp = FileStamp(path: "\(path)/\(name)") else { continue }
            stamps[String(name.dropLast(suffix.count))] = stamp
        }
        return stamps
    }
}
