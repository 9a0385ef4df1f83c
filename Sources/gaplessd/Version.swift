/// The version: of `--version`, the metrics, the records of workers in Redis, and the packages.
let gaplessdVersion = "0.2.0"
