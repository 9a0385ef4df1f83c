import Platform

/// The configuration in force and the files of `apps_dir`, as the thread of the settings knows them: reads the files that have
/// changed, each by itself, so that a change of one app costs the same for any number of apps.
struct AppFiles {
    /// Files that one turn of the dispatcher adopts at most.
    static let batch = 50

    private(set) var current: Configuration
    /// The numbers of all apps.
    private var numbers: [String?: Int] = [:]
    /// Apps whose files are to be read.
    private var waiting: [String] = []
    /// Roots that were read, for the next app.
    private var roots: [String?: CredentialLoader.Roots] = [:]
    private var next: Instant

    init(_ configuration: Configuration, now: Instant) {
        current = configuration
        next = now + AppFolder.interval
        number()
    }

    /// A configuration that was read as a whole is in force.
    mutating func adopt(_ configuration: Configuration) {
        (current, waiting) = (configuration, [])
        number()
    }

    private mutating func number() {
        numbers = Dictionary(current.settings.apps.enumerated().map { ($1.name, $0) }) { first, _ in first }
    }

    /// `nil` without `apps_dir`.
    var nextLook: Instant? { current.appFolder == nil ? nil : next }

    /// Looks at the files, and reads some of those that have changed. Returns `nil` if nothing is to be adopted or logged.
    mutating func look(now: Instant) -> Reloader.AppChanges? {
        if waiting.isEmpty {
            next = now + AppFolder.interval
            waiting = current.appFolder?.look() ?? []
        }
        if waiting.isEmpty { return nil }
        var changes = Reloader.AppChanges()
        var loader = CredentialLoader(now: WallClock.now().unixSeconds, stateFolder: current.stateFolder, roots: roots)
        for name in waiting.prefix(Self.batch) { read(name, &loader, &changes) }
        waiting.removeFirst(min(Self.batch, waiting.count))
        changes.warnings += loader.findings.warnings.map { $0.line(file: current.file) }
        roots = loader.roots
        return changes.isEmpty ? nil : changes
    }

    private mutating func read(_ name: String, _ loader: inout CredentialLoader, _ changes: inout Reloader.AppChanges) {
        guard let folder = current.appFolder else { return }
        let known = numbers[name].map { current.settings.apps[$0] }
        let present = known.flatMap { $0.isRemoved ? nil : $0 }
        let file = folder.file(of: name)
        if let present, present.file == nil {
            if folder.has(name) { changes.warnings.append("\(file.printable): ignored; apps has an app of this name as well") }
            return
        }
        guard folder.has(name) else {
            guard let present else { return }
            changes.removed.append(name)
            return adopt(present.removed, &changes)
        }
        var read = SettingsReader.readApp(name, in: folder, of: SettingsFile(path: current.file), over: current.drafts[0])
        if read.isIncomplete {
            changes.warnings.append("\(file.printable): the JSON is incomplete; the file is left alone until it is complete")
            return
        }
        // A swap of links changes every file, and usually the content of few.
        if let present, present.fileDigest == read.app.fileDigest, present.credential != nil { return }
        loader.load(&read.app)
        if let known { changes.faults += read.app.keep(what: known, file: current.file) }
        changes.warnings += read.warnings.map { $0.line(file: current.file) }
        if present == nil { changes.added.append(name) } else { changes.changed.append(name) }
        adopt(read.app, &changes)
    }

    private mutating func adopt(_ app: Settings.App, _ changes: inout Reloader.AppChanges) {
        let number = numbers[app.name] ?? current.settings.apps.count
        if number == current.settings.apps.count {
            guard number < JobID.mostApps else {
                changes.warnings.append("apps_dir: more than \(JobID.mostApps) apps since the start; restart gaplessd")
                return
            }
            numbers[app.name] = number
            current.settings.apps.append(app)
        } else {
            current.settings.apps[number] = app
        }
        changes.changes.append((number, app))
    }
}
