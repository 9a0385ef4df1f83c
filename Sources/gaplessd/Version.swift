/// The version that `--version`, the metrics, the records of workers in Redis and the packages contain.
let gaplessdVersion = "0.3.0"
