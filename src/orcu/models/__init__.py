"""Models and the heads that turn features into logits."""

from orcu.errors import require

require("torch", extra="train", what="orcu.models")
