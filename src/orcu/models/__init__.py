"""Neural networks: backbones, heads, and ensembles of them."""

from orcu.errors import require

require("torch", extra="train", feature="orcu.models")
