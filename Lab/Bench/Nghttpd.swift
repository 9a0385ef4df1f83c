import Glibc
import Harness
import RedisQueue

/// nghttp2's server with the certificate of the simulator. It responds to every POST with 200 and an empty file.
struct Nghttpd {
    let port: Int
    private let process: ChildProcess

    init(_ stage: Stage) throws {
        let root = stage.folder.file("htdocs")
        for path in [root, root + "/3", root + "/3/device"] { unsafe mkdir(path, 0o700) }
        try File.write("", to: root + "/3/device/\(BenchJob.fixedToken)")
        let credentials = stage.folder.file("credentials")
        let port = FreePort.pick()
        let process = try ChildProcess(
            "nghttpd",
            [
                "-a", "127.0.0.1", "-m", "1000", "-d", root, String(port), credentials + "/server-key.pem",
                credentials + "/server.pem",
            ],
            standardError: .inherited)
        process.pin(to: 1)
        guard waitUntil({ FreePort.isTaken(port) }) else { throw LabError(description: "nghttpd does not listen") }
        (self.port, self.process) = (port, process)
    }
}
