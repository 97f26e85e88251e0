"""Interactive explorer: one HTML page that shows the effect of the ORCU loss and evaluates a CSV of predictions."""

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import orcu
from orcu.errors import InputError, UnknownNameError
from orcu.io.files import atomic_write

DISTANCES = ("squared", "absolute", "huber", "exponential")
REGULARIZERS = ("lbe", "hinge", "softplus", "none")  # those that act on the gaps of one sample
MAX_CLASSES = 12
SCALES = (0.05, 50.0)
MAX_LOGIT = 1000.0
TABS = ("loss", "evaluate")
SCRIPTS = (
    "tabs.js",
    "model.js",
    "charts.js",
    "loss_page.js",
    "table.js",
    "predictions.js",
    "evaluate.js",
    "words.js",
    "example.js",
    "evaluate_page.js",
)


def page(
    *,
    num_classes: int = 5,
    true_class: int | None = None,
    scale: float = 3.0,
    distance: str = "squared",
    regularizer: str = "lbe",
    logits: Sequence[float] | None = None,
    tab: str = "loss",
) -> str:
    """The explorer as one self-contained HTML text.

    Args:
        num_classes: initial number of classes C, 2..12.
        true_class: true class in 0..C-1; the middle class (the lower of two) by default.
        scale: scale s of the barrier, between 0.05 and 50.
        distance: distance of the soft targets: squared, absolute, huber or exponential.
        regularizer: gap regularizer: lbe, hinge, softplus or none.
        logits: C numbers between -1000 and 1000; by default a prediction with one violated gap.
        tab: open tab: loss, or evaluate for the evaluation of a CSV of predictions.

    Raises:
        InputError: if an argument is not valid.

    Example:
        >>> text = page(num_classes=3, true_class=0)
        >>> text.count("<script>"), "http-equiv" in text, len(text) < 200_000
        (10, True, True)
    """
    from jinja2 import Environment, StrictUndefined

    true_class = (num_classes - 1) // 2 if true_class is None else true_class
    start = _initial_state(num_classes, true_class, scale, distance, regularizer, logits, tab)
    folder = files("orcu")
    scripts = [folder.joinpath("explore", name).read_text("utf-8") for name in SCRIPTS]
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(folder.joinpath("explore", "explore.html.j2").read_text("utf-8"))
    return template.render(
        start=json.dumps(start).replace("<", "\\u003c"),
        scripts=scripts,
        # browsers run no scripts with other hashes
        hashes=["sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts],
        style=folder.joinpath("report", "style.css").read_text("utf-8"),
        own_style=folder.joinpath("explore", "explore.css").read_text("utf-8"),
        distances=DISTANCES,
        regularizers=REGULARIZERS,
        max_classes=MAX_CLASSES,
        version=orcu.__version__,
    )


def write(path: str | os.PathLike[str], **options: Any) -> None:
    """Write the explorer to a file atomically.

    Args:
        path: path of the file.
        options: arguments of `page`.

    Raises:
        InputError: if an option is not valid, or the file cannot be written.

    Example:
        >>> import pathlib, tempfile
        >>> target = pathlib.Path(tempfile.mkdtemp()) / "explore.html"
        >>> write(target, scale=1.0)
        >>> '"scale": 1.0' in target.read_text("utf-8")
        True
    """
    text = page(**options)
    try:
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{os.fspath(path)}: cannot be written ({error.strerror or error}); choose another file."
        ) from None


def _initial_state(
    num_classes: int,
    true_class: int,
    scale: float,
    distance: str,
    regularizer: str,
    logits: Sequence[float] | None,
    tab: str,
) -> dict[str, Any]:
    """The checked initial state of the page."""
    if not 2 <= num_classes <= MAX_CLASSES:
        raise InputError(f"num_classes: expected 2..{MAX_CLASSES}, got {num_classes}.")
    if not 0 <= true_class < num_classes:
        raise InputError(f"true_class: expected 0..{num_classes - 1} for {num_classes} classes, got {true_class}.")
    if not SCALES[0] <= scale <= SCALES[1]:
        raise InputError(f"scale: expected a number between {SCALES[0]:g} and {SCALES[1]:g}, got {scale:g}.")
    for kind, name, choices in (
        ("distance", distance, DISTANCES),
        ("regularizer", regularizer, REGULARIZERS),
        ("tab", tab, TABS),
    ):
        if name not in choices:
            raise UnknownNameError(kind, name, choices)
    if logits is not None:
        if len(logits) != num_classes:
            raise InputError(f"logits: expected {num_classes} numbers, one per class, got {len(logits)}.")
        for k, value in enumerate(logits):
            if not abs(value) <= MAX_LOGIT:  # also refuses NaN
                raise InputError(
                    f"logits: expected numbers between -{MAX_LOGIT:g} and {MAX_LOGIT:g}, got {value:g} for class {k}."
                )
        logits = [float(value) for value in logits]
    return {
        "num_classes": int(num_classes),
        "true_class": int(true_class),
        "scale": float(scale),
        "distance": distance,
        "regularizer": regularizer,
        "logits": logits,
        "tab": tab,
    }
