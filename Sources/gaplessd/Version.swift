/// The version that `--version` prints and that Redis shows for each worker.
let gaplessdVersion = "0.1.0"
