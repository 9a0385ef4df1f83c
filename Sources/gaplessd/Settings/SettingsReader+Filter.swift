/// The keys of the word filter, and the file of words.
extension SettingsReader {
    /// `nil` where no word is named.
    mutating func filter(_ top: SettingsScope) -> Settings.Filter? {
        var words = top.names("filter_words")
        for word in words where FilterWord(word) == nil {
            fault(
                "filter_words", "has \"\(word)\", in which there is nothing to find",
                "a word, or a beginning of words such as \"word*\", would be right")
        }
        if let path = top.text("filter_words_path") { words += filterWords(path) }
        let action = WordFilter.Action(rawValue: top.text("filter_action") ?? "") ?? .drop
        if !words.isEmpty { return Settings.Filter(words: words, action: action) }
        if top.present.isDisjoint(with: ["filter_words", "filter_words_path"]), action == .mask {
            warn("filter_action", "is given without words", "filter_words or filter_words_path beside it would be right")
        }
        return nil
    }

    private mutating func filterWords(_ path: String) -> [String] {
        let key = "filter_words_path"
        let bytes: [UInt8]
        do {
            bytes = try FileBytes.read(path, atMost: SettingsFile.mostBytes)
        } catch {
            fault(key, "\(path) cannot be read: \(error)", "a readable file with one word a line would be right")
            return []
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            fault(key, "\(path) is not UTF-8", "a file with one word a line would be right")
            return []
        }
        let found = faults.count
        let words = FilterWordsFile.words(in: text) { number, line in
            fault(key, "\(path) has \"\(line)\" in line \(number), in which there is nothing to find", "a word would be right")
        }
        if words.isEmpty, faults.count == found {
            warn(key, "\(path) holds no words", "nothing is filtered on its account")
        }
        return words
    }
}
