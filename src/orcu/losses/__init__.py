"""Losses for ordered classes. One file per loss; a new file is found by itself.

``names()`` lists them, ``create("orcu", num_classes=5)`` makes one; ``distances`` and
``regularizers`` are the registries of the parts that `Composed` joins.
"""

from orcu.errors import require

require("torch", extra="train", what="orcu.losses")

from orcu.kernels.soft_targets import distances  # noqa: E402
from orcu.losses.base import LOSSES, REGULARIZERS, LossCard, OrdinalLoss  # noqa: E402
from orcu.losses.compose import Composed, create  # noqa: E402
from orcu.losses.orcu import ORCULoss  # noqa: E402

names = LOSSES.names
regularizers = REGULARIZERS

__all__ = ["Composed", "LossCard", "ORCULoss", "OrdinalLoss", "create", "distances", "names", "regularizers"]
