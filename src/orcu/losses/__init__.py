"""Losses for ordered classes, one file per loss; the files of this package are registered automatically.

``names()`` lists the losses and ``create("orcu", num_classes=5)`` builds one. ``distances`` and ``distributions``
(of soft targets) and ``regularizers`` are the registries of the parts that `Composed` adds up.
"""

from orcu.errors import require

require("torch", extra="train", feature="orcu.losses")

from orcu.kernels.soft_targets import distances, distributions  # noqa: E402
from orcu.losses.base import LOSSES, REGULARIZERS, LossCard, LossOptions, OrdinalLoss  # noqa: E402
from orcu.losses.compose import Composed, create  # noqa: E402
from orcu.losses.orcu import ORCULoss  # noqa: E402

names = LOSSES.names
regularizers = REGULARIZERS

__all__ = [
    "Composed",
    "LossCard",
    "LossOptions",
    "ORCULoss",
    "OrdinalLoss",
    "create",
    "distances",
    "distributions",
    "names",
    "regularizers",
]
