"""A loss, a metric, a calibrator and a data set for orcu; copy it, and replace what you need."""
