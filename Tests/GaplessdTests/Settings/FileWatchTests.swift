import Harness
import Platform
import Testing

@testable import gaplessd

@Suite("watch_files")
struct FileWatchTests {
    private let start = Instant.now
    private let file = FileStamp(device: 1, inode: 7, bytes: 100, changed: .seconds(50))
    private var watch: FileWatch

    init() { watch = FileWatch(["a", "b"], ["a": file, "b": file], now: start) }

    private func changed(bytes: Int64) -> [String: FileStamp] {
        ["a": file, "b": FileStamp(device: 1, inode: 7, bytes: bytes, changed: .seconds(60))]
    }

    private mutating func looks(_ stamps: [String: FileStamp]...) -> [Bool] {
        var answers: [Bool] = []
        for stamp in stamps { answers.append(watch.looked(stamp, now: start)) }
        return answers
    }

    @Test mutating func `unchanged files are not read again`() {
        let answers = looks(["a": file, "b": file], ["a": file, "b": file])
        #expect(answers == [false, false])
        #expect(watch.nextLook == start + FileWatch.interval)
    }

    @Test mutating func `a change is taken up by the second look that finds it, and once`() {
        let answers = looks(changed(bytes: 9), changed(bytes: 9), changed(bytes: 9))
        #expect(answers == [false, true, false])
    }

    @Test func `a change at any moment is taken up within two seconds`() {
        for delay in stride(from: 0, through: 750, by: 50) {
            let change = start + .milliseconds(delay)
            var watch = watch
            var now = start
            var isTakenUp = false
            while !isTakenUp {
                now = watch.nextLook
                isTakenUp = watch.looked(now < change ? ["a": file, "b": file] : changed(bytes: 9), now: now)
            }
            #expect(now - change < .seconds(2))
        }
    }

    @Test mutating func `a file that still grows is left alone`() {
        let answers = looks(changed(bytes: 9), changed(bytes: 10), changed(bytes: 11), changed(bytes: 11))
        #expect(answers == [false, false, false, true])
    }

    @Test mutating func `a file that is gone for one look only was replaced`() {
        let answers = looks(["a": file], changed(bytes: 9), changed(bytes: 9))
        #expect(answers == [false, false, true])
    }

    @Test mutating func `after a reload the new files are watched`() {
        watch.didRead(["a", "c"], ["a": file])
        #expect(watch.paths == ["a", "c"])
        let answers = looks(["a": file], ["a": file, "c": file], ["a": file, "c": file])
        #expect(answers == [false, false, true])
    }

    @Test func `the stamp of a file changes with its content and its replacement`() throws {
        let folder = TemporaryFolder()
        let path = folder.file("key")
        #expect(FileStamp(path: path) == nil)
        try File.write("one", to: path)
        let one = FileStamp(path: path)
        #expect(one != nil && one == FileStamp(path: path))
        try File.write("two and more", to: path)
        #expect(FileStamp(path: path) != one)
        #expect(FileStamp.stamps(of: [path, folder.file("missing")]).keys.map(\.self) == [path])
    }
}
