"""Training: configuration, training loop, checkpoints, and runs on prepared data."""

from orcu.errors import require

require("torch", extra="train", feature="orcu.training")
