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

    @Test func `A word in which there is nothing to find is a fault, and so is a file that is none`() {
        #expect(
            folder.faults(settings(#""filter_words": ["**"]"#)) == [
                #"filter_words: has "**", in which there is nothing to find; a word, or a beginning of words such as "word*", would be right"#
            ])
        folder.write("ok\n*\n", to: "star")
        #expect(
            folder.faults(settings(#""filter_words_path": "star""#)) == [
                "filter_words_path: \(folder.file("star")) has \"*\" in line 2, in which there is nothing to find; a word would be right"
            ])
        #expect(
            folder.faults(settings(#""filter_words_path": "none""#)) == [
                "filter_words_path: \(folder.file("none")) cannot be read: No such file or directory; a readable file with one word a line would be right"
            ])
        #expect(folder.faults(settings(#""filter_words_path": "/bin/true""#)).first?.contains("is not UTF-8") == true)
        #expect(
            folder.faults(settings(#""filter_action": "burn""#)) == [
                #"filter_action: is "burn", a string; "drop" or "mask" would be right"#
            ])
    }

    @Test func `What filters nothing is told`() throws {
        folder.write("# nothing yet\n", to: "empty")
        let empty = try folder.read(settings(#""filter_words_path": "empty""#))
        #expect(empty.settings.filter == nil)
        #expect(empty.warnings.map(\.key) == ["filter_words_path"])
        #expect(try folder.read(settings(#""filter_action": "mask""#)).warnings.map(\.key) == ["filter_action"])
        #expect(try folder.read(settings(#""filter_action": "drop""#)).warnings.isEmpty)
    }
}
