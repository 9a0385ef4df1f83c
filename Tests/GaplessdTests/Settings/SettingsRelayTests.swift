import Testing

@testable import gaplessd

@Suite("The settings of the relay")
struct SettingsRelayTests {
    private let folder = SettingsFolder()

    @Test func `relay_headers is an object of names and values, or a file with one`() throws {
        #expect(try folder.read(settings(#""pool_size": 2"#)).settings.relay.headers == nil)
        let object = #"{"Authorization": "Bearer a b", "X-1": "e"}"#
        let read = try folder.read(settings("\"relay_headers\": \(object)"))
        #expect(read.settings.relay.headers?.map(\.name) == ["Authorization", "X-1"])
        #expect(read.settings.relay.headers?.map(\.value.text) == ["Bearer a b", "e"])
        #expect(!"\(read.settings)".contains("Bearer"))
        folder.write(object + "\n", to: "headers.json")
        let filed = try folder.read(settings(#""relay_headers_file": "headers.json""#))
        #expect(filed.settings.relay.headers == read.settings.relay.headers)
    }

    @Test(arguments: [
        #"{"Host": "SECRET"}"#, #"{"content-length": "SECRET"}"#, #"{"Transfer-Encoding": "SECRET"}"#,
        #"{"Connection": "SECRET"}"#,
        #"{"x-gapless-signature": "SECRET"}"#, #"{"A": "SECRET\r\nB: c"}"#, #"{"A": "SECRET\n"}"#, #"{"A": "\u0000SECRET"}"#,
        #"{"A": " SECRET"}"#, #"{"A": "SECRET "}"#, #"{"A": ""}"#, #"{"A": 5}"#, #"{"A": "SECRET", "a": "SECRET"}"#,
        #"{"SECRET: x": "y"}"#, #"{"": "SECRET"}"#, #"{"A\r\nSECRET": "y"}"#, #"["SECRET"]"#, #""SECRET""#, "5",
        #"{"A": "SECRETé"}"#,
    ])
    func `a header that would change the request is a fault, and no value is shown`(value: String) {
        let faults = folder.faults(settings("\"relay_headers\": \(value)"))
        #expect(faults.count == 1 && faults[0].hasPrefix("relay_headers: ") && faults[0].contains("; expected "), "\(faults)")
        #expect(!faults.joined().contains("SECRET"), "\(faults)")
    }

    @Test(arguments: [#""hooks.example/SECRET""#, #""https://u:SECRET@h/""#, #""https://h/SECRET#f""#, #"["https://SECRET"]"#])
    func `a fault of relay_url shows no path`(value: String) {
        let faults = folder.faults(settings("\"relay_url\": \(value)"))
        #expect(faults.count == 1 && !faults.joined().contains("SECRET"), "\(faults)")
    }

    @Test func `a warning of relay_url shows no path`() throws {
        let warnings = try folder.read(settings(#""relay_url": "http://a.example/SECRET""#)).warnings
        #expect(warnings.count == 1 && !"\(warnings)".contains("SECRET"))
    }
}
