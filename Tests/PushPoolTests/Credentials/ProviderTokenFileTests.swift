import Glibc
import Harness
import Platform
import Synchronization
import Testing

@testable import PushPool

private let start = Instant.now
private let birth: Int64 = 1_700_000_000

/// Returns the time this many minutes after the start of a test, by both clocks.
private func minute(_ count: Double) -> Moment {
    Moment(now: start + .seconds(count * 60), unixTime: birth + Int64(count * 60))
}

/// A folder for tokens that is not there before the first of them.
private struct Shelf {
    let directory = TemporaryFolder()
    var folder: String { "\(directory.path)/deep/state" }
    var file: StateFile { StateFile(folder: folder, name: "provider-token-key") }

    /// Returns the source of another process.
    func source() throws -> ProviderTokenSource { ProviderTokenSource(try signingKey(), file: file) }

    var mode: mode_t {
        var status = stat()
        return lstat(file.path, &status) == 0 ? status.st_mode & 0o777 : 0
    }

    func saved() throws -> SavedToken { try #require(SavedToken(text: try file.read() ?? [])) }

    func save(_ saved: SavedToken) throws { try save(saved.text) }

    func save(_ text: [UInt8]) throws {
        guard let lock = try file.tryLock() else { throw file.isHeld }
        try file.write(text, holding: lock)
    }
}

@Suite("A provider token between processes")
struct ProviderTokenFileTests {
    private let shelf = Shelf()

    @Test func `a process uses and reports the token that another process minted`() throws {
        let first = try shelf.source()
        let token = try #require(first.token(forNewSession: true, at: minute(0)))
        #expect(first.takeNews() == [.minted(key: "ABCDE12345")])
        let second = try shelf.source()
        #expect(second.token(forNewSession: true, at: minute(5))?.bytes == token.bytes)
        #expect(second.takeNews() == [.found(key: "ABCDE12345", age: .seconds(300))])
        #expect(second.token(forNewSession: false, at: minute(49))?.bytes == token.bytes)
        #expect(second.token(forNewSession: false, at: minute(50))?.bytes != token.bytes)
    }

    @Test(.enabled(if: geteuid() == 0, "only root has the files of others"))
    func `root reads the token of the folder's owner, and gives its files to that user`() throws {
        let folder = shelf.directory.path + "/state"
        #expect(mkdir(folder, 0o700) == 0 && chown(folder, 12_345, 54_321) == 0)
        let file = StateFile(folder: folder, name: "provider-token-key")
        guard let lock = try file.tryLock() else { throw file.isHeld }
        try file.write(Array("token".utf8), holding: lock)
        for path in [file.path, file.path + ".lock"] {
            var facts = stat()
            #expect(
                lstat(path, &facts) == 0 && facts.st_uid == 12_345 && facts.st_gid == 54_321 && facts.st_mode & 0o777 == 0o600)
        }
        #expect(try file.read() == Array("token".utf8))
        // A third user's file is none of the service.
        #expect(chown(file.path, 777, 777) == 0)
        #expect(throws: StateFile.Fault.self) { try file.read() }
    }

    @Test func `it is this user's alone, and so is its folder`() throws {
        _ = try shelf.source().token(forNewSession: true, at: minute(0))
        #expect(shelf.mode == 0o600)
        var status = stat()
        #expect(stat(shelf.folder, &status) == 0 && status.st_mode & 0o777 == 0o700)
    }

    @Test(arguments: [0o640, 0o604, 0o620, 0o666] as [mode_t])
    func `a file that others may touch is not used, and said once`(mode: mode_t) throws {
        let first = try #require(try shelf.source().token(forNewSession: true, at: minute(0)))
        chmod(shelf.file.path, mode)
        let source = try shelf.source()
        let own = try #require(source.token(forNewSession: true, at: minute(1)))
        #expect(own.bytes != first.bytes)
        #expect(source.token(forNewSession: true, at: minute(40))?.bytes != own.bytes)
        let news = source.takeNews()
        #expect(news.count == 3)
        #expect(
            news.first
                == .notKept(key: "ABCDE12345", "\(shelf.file.path) is accessible to other users; expected mode 600"))
        #expect(shelf.directory.read("deep/state/provider-token-key") == shelf.saved(first).text, "left as it was")
    }

    @Test func `a link in its place is not followed`() throws {
        _ = try shelf.source().token(forNewSession: true, at: minute(0))
        rename(shelf.file.path, shelf.file.path + ".real")
        symlink(shelf.file.path + ".real", shelf.file.path)
        let source = try shelf.source()
        #expect(source.token(forNewSession: true, at: minute(1)) != nil)
        guard case .notKept = source.takeNews().first else {
            Issue.record("a link was followed")
            return
        }
    }

    @Test func `without a folder to write it is kept in memory, and said once`() throws {
        shelf.directory.write("no folder", to: "deep")
        let source = try shelf.source()
        let token = try #require(source.token(forNewSession: true, at: minute(0)))
        #expect(source.token(forNewSession: true, at: minute(29)) == token)
        #expect(source.token(forNewSession: true, at: minute(31)) != token)
        let complaints = source.takeNews().filter { if case .notKept = $0 { true } else { false } }
        #expect(complaints.count == 1)
    }

    @Test(arguments: [
        "", "rubbish", "gaplessd provider token 1\nissued 1\nhurried 0\nkept 0\ntoken ", "gaplessd provider token 2\n",
    ])
    func `a file without a token is replaced`(content: String) throws {
        try shelf.save(Array(content.utf8))
        let source = try shelf.source()
        let token = try #require(source.token(forNewSession: true, at: minute(0)))
        #expect(source.takeNews() == [.minted(key: "ABCDE12345")])
        #expect(try shelf.saved().bytes == token.bytes)
    }

    @Test func `a token of another key, or with another date than it says, is not ours`() throws {
        let key = try signingKey()
        let real = try #require(ProviderToken(signedBy: key, issuedAt: birth, generation: 1))
        for (bytes, date) in [(real.bytes, birth + 1), (real.bytes.dropLast(4) + Array("AAAA".utf8), birth)] {
            try shelf.save(SavedToken(bytes: Array(bytes), issuedAt: date))
            let source = try shelf.source()
            _ = source.token(forNewSession: true, at: minute(1))
            #expect(source.takeNews() == [.minted(key: "ABCDE12345")])
        }
        try shelf.save(SavedToken(bytes: real.bytes, issuedAt: birth))
        #expect(try shelf.source().token(forNewSession: true, at: minute(1))?.bytes == real.bytes)
    }

    @Test func `a token dated in the future is not used, because its age is unknown`() throws {
        _ = try shelf.source().token(forNewSession: true, at: minute(90))
        let source = try shelf.source()
        _ = source.token(forNewSession: true, at: minute(10))
        #expect(source.takeNews() == [.minted(key: "ABCDE12345")])
        #expect(try shelf.saved().issuedAt == minute(10).unixTime)
    }

    @Test func `one that is 50 minutes old is not used, one of 30 not for a new session`() throws {
        let first = try #require(try shelf.source().token(forNewSession: true, at: minute(0)))
        #expect(try shelf.source().token(forNewSession: false, at: minute(49.9))?.bytes == first.bytes)
        #expect(try shelf.source().token(forNewSession: true, at: minute(29.9))?.bytes == first.bytes)
        let second = try #require(try shelf.source().token(forNewSession: true, at: minute(30)))
        #expect(second.bytes != first.bytes)
        #expect(try shelf.source().token(forNewSession: false, at: minute(79))?.bytes == second.bytes)
        #expect(try shelf.source().token(forNewSession: false, at: minute(80))?.bytes != second.bytes)
    }

    @Test func `a clock that is set back or forward does not age a token in this process`() throws {
        let source = try shelf.source()
        let token = try #require(source.token(forNewSession: true, at: minute(0)))
        for step in [-86_400, -60, 60, 86_400] as [Int64] {
            let moment = Moment(now: start + .seconds(29 * 60), unixTime: birth + 29 * 60 + step)
            #expect(source.token(forNewSession: true, at: moment) == token)
        }
    }

    @Test func `an expired token is replaced by one process, and the others take that one`() throws {
        let sources = try (0..<5).map { _ in try shelf.source() }
        for source in sources { _ = source.token(forNewSession: true, at: minute(0)) }
        for source in sources { #expect(source.renew(after: 1, at: minute(10)) == 2) }
        let news = sources.flatMap { $0.takeNews() }
        #expect(news.count { $0 == .minted(key: "ABCDE12345") } == 2)
        // A second renewal within 20 minutes is refused, even after a restart.
        for source in sources { #expect(source.renew(after: 2, at: minute(11)) == nil) }
        let restarted = try shelf.source()
        _ = restarted.token(forNewSession: true, at: minute(12))
        #expect(restarted.renew(after: 1, at: minute(12)) == nil)
        #expect(restarted.renew(after: 1, at: minute(31)) == 2)
    }

    @Test func `once APNs has seen too many, no process mints for 20 minutes`() throws {
        let (first, second) = (try shelf.source(), try shelf.source())
        let token = try #require(first.token(forNewSession: true, at: minute(0)))
        _ = second.token(forNewSession: true, at: minute(0))
        first.updatesRefused(at: minute(29))
        #expect(second.token(forNewSession: true, at: minute(35))?.bytes == token.bytes)
        #expect(try shelf.source().token(forNewSession: true, at: minute(48))?.bytes == token.bytes)
        #expect(second.token(forNewSession: true, at: minute(50))?.bytes != token.bytes)
    }

    @Test func `a process that stopped with the lock does not stop the others`() throws {
        let lock = try shelf.file.tryLock()
        let source = try shelf.source()
        #expect(source.token(forNewSession: true, at: minute(0)) != nil)
        #expect(source.takeNews().first == .notKept(key: "ABCDE12345", "\(shelf.file.path).lock is held by another process"))
        _ = consume lock
    }

    @Test func `a renewal does not wait for that lock: the next session does`() throws {
        let source = try shelf.source()
        _ = source.token(forNewSession: true, at: minute(0))
        _ = source.takeNews()
        let lock = try shelf.file.tryLock()
        #expect(source.renew(after: 1, at: minute(10)) == 2)
        #expect(source.takeNews() == [], "neither a token nor a complaint")
        _ = consume lock
        #expect(source.token(forNewSession: true, at: minute(10))?.generation == 2)
        #expect(source.takeNews() == [.minted(key: "ABCDE12345")])
        #expect(source.renew(after: 2, at: minute(11)) == nil, "only once in 20 minutes")
    }

    @Test func `a token has an age and can be renewed while another thread waits for the lock of its file`() throws {
        let source = try shelf.source()
        _ = source.token(forNewSession: true, at: minute(0))
        let lock = try shelf.file.tryLock()
        // A try in which the other thread got no processor for two seconds shows nothing.
        let wasKnown = try (1...15).contains { round in
            let isOver = Atomic<Bool>(false)
            let thread = JoinOnce(
                try OwnedThread(name: "test") {
                    _ = source.token(forNewSession: true, at: minute(50 * Double(round)))
                    isOver.store(true, ordering: .releasing)
                })
            while !isOver.load(ordering: .acquiring) && descriptors(of: "\(shelf.file.path).lock").count < 2 {}
            let age = source.age(now: start)
            let renewal = source.renew(after: .max - 1, at: minute(50 * Double(round)))
            let isEarly = !isOver.load(ordering: .acquiring)
            thread.join()
            return isEarly && age != nil && renewal != nil
        }
        #expect(wasKnown)
        _ = consume lock
    }

    @Test func `a child process that shares the descriptor does not keep the lock`() throws {
        guard let lock = try shelf.file.tryLock() else { throw shelf.file.isHeld }
        // As a fork does, dup(2) makes a second reference to the same open file.
        let copy = dup(try #require(descriptors(of: "\(shelf.file.path).lock").first))
        defer { close(copy) }
        _ = consume lock
        guard let next = try shelf.file.tryLock() else { throw shelf.file.isHeld }
        _ = consume next
    }

    private func descriptors(of path: String) -> [CInt] {
        folderEntries("/proc/self/fd").compactMap { CInt($0) }.filter { descriptor in
            var target = [CChar](repeating: 0, count: 1024)
            let count = readlink("/proc/self/fd/\(descriptor)", &target, target.count)
            return count > 0 && String(decoding: target.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self) == path
        }
    }

    @Test func `fifty processes that start together share one token`() throws {
        let sources = try (0..<50).map { _ in try shelf.source() }
        let threads = try sources.map { source in
            JoinOnce(try OwnedThread(name: "test") { _ = source.token(forNewSession: true, at: minute(0)) })
        }
        for thread in threads { thread.join() }
        #expect(Set(sources.map { $0.token(forNewSession: true, at: minute(0))?.bytes }).count == 1)
        #expect(sources.flatMap { $0.takeNews() }.count { $0 == .minted(key: "ABCDE12345") } == 1)
    }
}

extension Shelf {
    /// How a token minted at the first moment stands in the file.
    func saved(_ token: ProviderToken) -> SavedToken { SavedToken(bytes: token.bytes, issuedAt: birth) }
}
