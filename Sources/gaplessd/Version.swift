/// The version of gaplessd, as `--version` prints it and Redis shows it beside each worker.
let gaplessdVersion = "0.1.0"
