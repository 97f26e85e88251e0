"""The explorer: one page on which ORCU's forces on a prediction can be played with, and a CSV of predictions judged."""

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
MOST_CLASSES = 12
SCALES = (0.05, 50.0)
LARGEST_LOGIT = 1000.0
TABS = ("loss", "judge")
SCRIPTS = (
    "tabs.js",
    "model.js",
    "charts.js",
    "page.js",
    "table.js",
    "predictions.js",
    "judge.js",
    "words.js",
    "example.js",
    "judge_page.js",
)


def page(
    *,
    classes: int = 5,
    label: int | None = None,
    scale: float = 3.0,
    distance: str = "squared",
    regularizer: str = "lbe",
    logits: Sequence[float] | None = None,
    tab: str = "loss",
) -> str:
    """The explorer as one HTML text that needs nothing from outside.

    Args:
        classes: C to start with, 2..12.
        label: the observed class, 0..C-1; the middle one (the lower of two) by default.
        scale: s, between 0.05 and 50.
        distance: of the soft targets: squared, absolute, huber or exponential.
        regularizer: lbe, hinge, softplus or none.
        logits: C numbers between -1000 and 1000; by default a prediction with one violated gap.
        tab: that is open at first: loss, or judge for the one that judges a CSV of predictions.

    Raises:
        InputError: if the page cannot start with an argument.

    Example:
        >>> text = page(classes=3, label=0)
        >>> text.count("<script>"), "http-equiv" in text, len(text) < 200_000
        (10, True, True)
    """
    from jinja2 import Environment, StrictUndefined

    label = (classes - 1) // 2 if label is None else label
    start = _checked(classes, label, scale, distance, regularizer, logits, tab)
    folder = files("orcu")
    scripts = [folder.joinpath("explore", name).read_text("utf-8") for name in SCRIPTS]
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(folder.joinpath("explore", "explore.html.j2").read_text("utf-8"))
    return template.render(
        start=json.dumps(start).replace("<", "\\u003c"),
        scripts=scripts,
        hashes=[_hash(script) for script in scripts],
        style=folder.joinpath("report", "style.css").read_text("utf-8"),
        own_style=folder.joinpath("explore", "explore.css").read_text("utf-8"),
        distances=DISTANCES,
        regularizers=REGULARIZERS,
        most_classes=MOST_CLASSES,
        version=orcu.__version__,
    )


def write(path: str | os.PathLike[str], **options: Any) -> None:
    """Write the explorer; the file appears whole or not at all.

    Args:
        path: of the file.
        options: what to start with, as for `page`.

    Raises:
        InputError: if an option cannot be used, or the file cannot be written.

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
            f"{os.fspath(path)}: cannot be written ({error.strerror or error}); choose another place."
        ) from None


def _hash(script: str) -> str:
    """The script as the page's policy names it: a browser runs no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _checked(
    classes: int, label: int, scale: float, distance: str, regularizer: str, logits: Sequence[float] | None, tab: str
) -> dict[str, Any]:
    """The page's first state; what it could not show is refused."""
    if not 2 <= classes <= MOST_CLASSES:
        raise InputError(f"classes: expected 2..{MOST_CLASSES}, got {classes}.")
    if not 0 <= label < classes:
        raise InputError(f"label: expected 0..{classes - 1} for {classes} classes, got {label}. Classes count from 0.")
    if not SCALES[0] <= scale <= SCALES[1]:
        raise InputError(f"scale: expected a number between {SCALES[0]:g} and {SCALES[1]:g}, got {scale:g}.")
    for kind, name, known in (
        ("distance", distance, DISTANCES),
        ("regularizer", regularizer, REGULARIZERS),
        ("tab", tab, TABS),
    ):
        if name not in known:
            raise UnknownNameError(kind, name, known)
    if logits is not None:
        if len(logits) != classes:
            raise InputError(f"logits: expected {classes} numbers, one per class, got {len(logits)}.")
        for k, value in enumerate(logits):
            if not abs(value) <= LARGEST_LOGIT:  # also refuses NaN
                raise InputError(
                    f"logits: expected numbers between -{LARGEST_LOGIT:g} and {LARGEST_LOGIT:g}, "
                    f"got {value:g} for class {k}."
                )
        logits = [float(value) for value in logits]
    return {
        "classes": int(classes),
        "label": int(label),
        "scale": float(scale),
        "distance": distance,
        "regularizer": regularizer,
        "logits": logits,
        "tab": tab,
    }
