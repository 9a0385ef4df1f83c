import ArgumentParser

/// `gaplessd schema`: prints a JSON Schema for editors and for checks of producers.
struct Schema: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Prints the JSON Schema (2020-12) of the settings file or of a job.",
        discussion: """
            An editor that knows the schema completes and checks keys; '$schema' is allowed in a settings file. A schema \
            cannot express every rule: 'check' and 'enqueue' apply them all.

            Exit status: 0 success, 64 wrong usage.
            """)

    enum Subject: String, CaseIterable, ExpressibleByArgument {
        case settings, job
    }

    @Argument(help: "'settings' or 'job'.")
    var subject: Subject

    func run() throws {
        let schema =
            switch subject {
            case .settings: SettingsSchema().json
            case .job: JobSchema().json
            }
        StandardStreams.print(schema.indented())
    }
}
