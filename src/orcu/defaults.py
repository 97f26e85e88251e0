"""Default settings that several packages share."""

NETWORK_LOSSES = ("ce", "sord", "orcu")  # losses of the networks of an ensemble
HIDDEN_LAYER_SIZES = (128, 128)  # of the networks of an ensemble
SCALE = 3.0  # s of ORCU; Paper: the scale of its image experiments
CV = 5  # cross-fitting folds
EPOCHS = 50  # of the networks of an ensemble, for tables of up to EPOCHS_ROWS training rows
EPOCHS_ROWS = 15_000  # larger tables need fewer epochs, in inverse proportion
MIN_EPOCHS = 10
# From this number of rows on, one held-out part replaces cross-fitting: it costs a fifth, and with many rows averaging
# five models gains little (benchmarks/training_cost.py).
HOLD_OUT_FROM = 20_000
HOLD_OUT_ROWS = 10_000  # largest held-out part; weights, a calibrator and prediction sets need no more
