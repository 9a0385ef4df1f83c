import Testing

@Suite("The folders of a module")
struct FolderOrderTests {
    /// Folders from the bottom up. Folders on one level do not know each other; "" is the module's root.
    private static let levels: [String: [[String]]] = [
        "Sources/gaplessd": [
            ["Filter"], ["Job"], ["Log"], ["Settings"], ["SideChannel"], ["Monitoring"], ["Delivery"], ["Commands"], [""],
        ],
        "Sources/PushPool": [
            ["Credentials"], ["Model"], ["HTTP2", "Policy"], ["Work"], ["Session"], ["Pool"], [""],
        ],
        "Client/Sources/APNSClient": [["Model"], ["Machine"], ["Core"], [""]],
        "Sources/RedisQueue": [["Model"], ["Connection"], ["Scripts"], ["Delivery"], ["Discovery"], ["Admin", ""]],
    ]

    @Test(arguments: levels.keys.sorted())
    func `name types of lower folders only`(module: String) {
        let levels = Self.levels[module] ?? []
        let files = SourceFile.product.filter { $0.path.hasPrefix(module + "/") }
        let folder = { (file: SourceFile) -> String in
            let parts = file.path.dropFirst(module.count + 1).split(separator: "/")
            return parts.count > 1 ? String(parts[0]) : ""
        }
        #expect(files.count > 10)
        #expect(Set(files.map(folder)).subtracting(levels.joined()) == [], "a folder has no place in the order")
        var homes: [String: String] = [:]
        for file in files { for type in file.topLevelTypes { homes[type] = folder(file) } }
        let level = { (folder: String) in levels.firstIndex { $0.contains(folder) } ?? 0 }
        var violations: [String] = []
        for file in files {
            let own = folder(file)
            let nested = files.filter { $0.typeName == file.typeName }.reduce(into: file.nestedTypes) {
                $0.formUnion($1.nestedTypes)
            }
            for (type, line) in file.typeNames {
                guard let home = homes[type], home != own, !nested.contains(type), level(home) >= level(own) else { continue }
                violations.append("\(file.path):\(line): \(type) lives in \(home.isEmpty ? "the root" : home)")
            }
        }
        Rule.folderOrder.expectNone(violations.sorted())
    }
}
