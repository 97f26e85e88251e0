"""Default settings that several packages share."""

NETWORK_LOSSES = ("ce", "sord", "orcu")  # losses of the networks of an ensemble
BOOSTING_LOSSES = ("ce", "orcu")  # losses of the boosted trees of `OrdinalBoosting`
HIDDEN_LAYER_SIZES = (128, 128)  # of the networks of an ensemble
SCALE = 3.0  # s of ORCU; Paper: the scale of its image experiments
CV = 5  # cross-fitting folds
