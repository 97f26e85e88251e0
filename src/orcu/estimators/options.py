"""What the options of `OrdinalClassifier` may be; its contract puts the check into ``fit``."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from orcu import calibrators
from orcu.errors import InputError, UnknownNameError
from orcu.inputs import as_count, as_positive
from orcu.metrics.ordinal import accuracy, qwk

SCORES = {"accuracy": accuracy, "qwk": qwk}


def check_options(model: Any) -> None:
    """Refuse options that cannot be used, before anything is changed.

    Raises:
        InputError: which names the option.
    """
    as_count(model.epochs, name="epochs", minimum=1)
    as_count(model.batch_size, name="batch_size", minimum=2)
    as_positive(model.learning_rate, name="learning_rate")
    if model.scale != "auto":
        as_positive(model.scale, name="scale")
    if isinstance(model.hidden, (int, str)) or any(
        not isinstance(units, (int, np.integer)) or units < 1 for units in model.hidden
    ):
        raise InputError(f"hidden: expected units of each layer such as (256,), got {model.hidden!r}.")
    if isinstance(model.calibrator, (str, dict)) and model.calibrator != "auto":
        calibrators.create(model.calibrator)
    elif model.calibrator not in (None, "auto") and not hasattr(model.calibrator, "fit"):
        raise InputError(f"calibrator: expected a name or a calibrator, got {model.calibrator!r}.")
    if not isinstance(model.loss, (str, Mapping)):
        raise InputError(f"loss: expected a name or a table, got {model.loss!r}.")
    if model.class_weight not in (None, "balanced") and not isinstance(model.class_weight, Mapping):
        raise InputError(f"class_weight: expected None, 'balanced' or a dictionary, got {model.class_weight!r}.")
    given = model.module
    if isinstance(given, type) or (given is not None and not hasattr(given, "state_dict")):
        raise InputError(f"module: expected an nn.Module, got {model.module!r}.")
    if model.metric not in SCORES:
        raise UnknownNameError("metric", model.metric, SCORES)


def check_same_shape(model: Any, classes: Any) -> None:
    """Refuse a warm start with a network of another shape than the last fit's.

    Raises:
        InputError: if layers or classes differ.
    """
    fresh = copy.copy(model)
    fresh.classes_ = classes
    fresh._build(0)
    before, now = ({name: value.shape for name, value in one.model_.state_dict().items()} for one in (model, fresh))
    if before != now:
        raise InputError(
            "warm_start: the network of the last fit has other layers or classes; fit a new model, or set "
            "warm_start=False."
        )
