"""Training: recipes, one visible loop, checkpoints, and runs over prepared data."""

from orcu.errors import require

require("torch", extra="train", what="orcu.training")
