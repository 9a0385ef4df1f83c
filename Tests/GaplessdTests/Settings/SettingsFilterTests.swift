import Testing

@testable import gaplessd

@Suite("Settings of the word filter")
struct SettingsFilterTests {
    private let folder = SettingsFolder()

    @Test func `Words come from the settings and from a file`() throws {
        folder.write("\u{FEFF}# rude\nsecond\n\n  third word \t\r\n#hash\nc#\n", to: "words.txt")
        let read = try folder.read(
            settings(#""filter_words": ["first"], "filter_words_path": "words.txt", "filter_action": "mask""#))
        #expect(read.settings.filter == Settings.Filter(words: ["first", "second", "third word", "c#"], action: .mask))
        #expect(read.warnings.isEmpty)
        #expect(
            try folder.read(settings(#""filter_words": "one""#)).settings.filter == Settings.Filter(words: ["one"], action: .drop)
        )
        #expect(try folder.read(settings(#""filter_words": ["one", "one"]"#)).settings.filter != nil)
        #expect(try folder.read(settings()).settings.filter == nil)
        #expect(try folder.read(settings(#""filter_words": []"#)).settings.filter == nil)
    }

    @Test func `A word that matches nothing and an unreadable file are faults`() {
        folder.write("ok\n*\n", to: "star")
        let file = "expected a UTF-8 file with one word per line"
        for (member, fault) in [
            (
                #""filter_words": ["**"]"#,
                #"filter_words: "**" matches nothing; expected a word, or the start of words such as "word*""#
            ),
            (
                #""filter_words_path": "star""#,
                "filter_words_path: \(folder.file("star")), line 2: \"*\" matches nothing; expected a word"
            ),
            (
                #""filter_words_path": "none""#,
                "filter_words_path: \(folder.file("none")) cannot be read: No such file or directory; \(file)"
            ),
            (#""filter_words_path": "/bin/true""#, "filter_words_path: /bin/true is not UTF-8; \(file)"),
            (#""filter_action": "burn""#, #"filter_action: invalid value "burn"; expected "drop" or "mask""#),
        ] { #expect(folder.faults(settings(member)) == [fault]) }
    }

    @Test func `A filter without words causes a warning`() throws {
        folder.write("# nothing yet\n", to: "empty")
        let empty = try folder.read(settings(#""filter_words_path": "empty""#))
        #expect(empty.settings.filter == nil)
        #expect(empty.warnings.map(\.key) == ["filter_words_path"])
        #expect(try folder.read(settings(#""filter_action": "mask""#)).warnings.map(\.key) == ["filter_action"])
        #expect(try folder.read(settings(#""filter_action": "drop""#)).warnings.isEmpty)
    }
}
