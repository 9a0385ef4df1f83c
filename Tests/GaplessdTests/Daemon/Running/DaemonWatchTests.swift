import APNSSimulator
import Glibc
import Harness
import Testing

@Suite("watch_files in the daemon", .blocking)
struct DaemonWatchTests {
    @Test func `a replaced key is used without a signal, and a faulty settings file changes nothing`() throws {
        let (stage, daemon) = try givenOpen(["watch_files": "true"])
        try File.write("{\"half", to: stage.folder.file("settings.json"))
        #expect(daemon.says("Reload failed: "), "\(daemon.standardError)")
        try stage.push(pushJob("0b"))
        #expect(stage.accepts(2))
        try stage.write([
            "watch_files": "true", "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0002.p8\"",
            "apns_auth_key_id": "\"SIMKEY0002\"",
        ])
        #expect(daemon.says("signed with the key SIMKEY0002"), "\(daemon.standardError)")
        #expect(daemon.says("Reloaded: "))
        try stage.write()
        #expect(waitUntil { daemon.reports.count { $0.contains("Reloaded: ") } == 2 }, "watch_files is off from now on")
    }

    @Test func `each kind of file is taken up, and a certificate without its key is not`() throws {
        let stage = try Stage()
        for (folder, topic) in [("one", "com.example.one"), ("two", "com.example.two")] {
            for name in [folder, "\(folder)-new"] { try Self.makeCredentials(topic, in: stage.folder.file(name)) }
        }
        try File.write("giraffe\n", to: stage.folder.file("words"))
        let settings: [String: String?] = [
            "watch_files": "true", "filter_words_path": "\"words\"",
            "apps": #"{"one": {"apns_cert_path": "one/client.pem", "apns_key_path": "one/client-key.pem"}, "#
                + #""two": {"apns_p12_path": "two/client.p12", "apns_p12_password": "simulator"}}"#,
        ]
        let daemon = try stage.startOpen(settings)
        var reloads = 0
        func reloaded() -> Bool {
            reloads += 1
            return waitUntil(atMost: .seconds(30)) { daemon.reports.count { $0.contains("Reloaded: ") } >= reloads }
        }
        func replace(_ path: String, with other: String) {
            #expect(rename(stage.folder.file(other), stage.folder.file(path)) == 0)
        }

        replace("one/client.pem", with: "one-new/client.pem")
        #expect(reloaded(), "without the certificate")
        #expect(daemon.says("apps.one.apns_"), "\(daemon.standardError)")
        #expect(daemon.says(#"Only app "one" keeps its previous credential"#))
        replace("one/client-key.pem", with: "one-new/client-key.pem")
        #expect(reloaded(), "certificate and key")
        replace("two/client.p12", with: "two-new/client.p12")
        #expect(reloaded(), "PKCS#12")
        let key = "credentials/AuthKey_SIMKEY0001.p8"
        try File.write(File.read(stage.folder.file(key)), to: stage.folder.file("copy"))
        replace(key, with: "copy")
        #expect(reloaded(), "signing key")
        try File.write("giraffe\nzebra\n", to: stage.folder.file("words"))
        #expect(reloaded(), "words")
        try stage.push(pushJob("0c", data: #"{"aps":{"alert":"A zebra"}}"#))
        #expect(try waitUntil { try stage.deadLetters().first?.text("reason") == "Filtered" })
        try stage.write(settings.merging(["pool_size": "1"]) { $1 })
        #expect(reloaded(), "settings")
        #expect(!daemon.standardError.contains("Reload failed: "))
    }

    @Test func `links that move to other files are followed, as Kubernetes and certbot replace them`() throws {
        let stage = try Stage()
        let path = stage.folder.file
        for folder in ["mount", "mount/..1", "mount/..2", "live"] { #expect(mkdir(path(folder), 0o700) == 0) }
        for number in 1...2 { try Self.makeCredentials("com.example.one", in: path("archive\(number)")) }
        for number in 1...2 {
            let key = File.read(path("credentials/AuthKey_SIMKEY000\(number).p8"))
            try File.write(key, to: path("mount/..\(number)/key.p8"))
            try stage.write(
                [
                    "watch_files": "true", "apns_ca_path": path("credentials/ca.pem").quoted, "apns_auth_key_path": "\"key.p8\"",
                    "apns_auth_key_id": "\"SIMKEY000\(number)\"",
                    "apps": #"{"one": {"apns_cert_path": "../live/cert.pem", "apns_key_path": "../live/key.pem"}}"#,
                ], name: "mount/..\(number)/settings.json")
        }
        func link(_ name: String, to target: String) {
            unlink(path(name))
            #expect(symlink(target, path(name)) == 0)
        }
        link("mount/..data", to: "..1")
        for name in ["settings.json", "key.p8"] { link("mount/\(name)", to: "..data/\(name)") }
        link("live/cert.pem", to: "../archive1/client.pem")
        link("live/key.pem", to: "../archive1/client-key.pem")
        let daemon = try stage.start(path("mount/settings.json"))
        try stage.open(daemon)

        link("mount/..new", to: "..2")
        #expect(rename(path("mount/..new"), path("mount/..data")) == 0)
        #expect(daemon.says("signed with the key SIMKEY0002"), "\(daemon.standardError)")
        #expect(daemon.says("Reloaded: "))
        link("live/cert.pem", to: "../archive2/client.pem")
        link("live/key.pem", to: "../archive2/client-key.pem")
        #expect(waitUntil(atMost: .seconds(30)) { daemon.reports.count { $0.contains("Reloaded: ") } == 2 })
        #expect(daemon.stop()?.status == 0)
    }

    private static func makeCredentials(_ topic: String, in folder: String) throws {
        try Credentials.make(.init(topics: [topic])).write(to: folder)
    }
}
