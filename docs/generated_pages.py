"""Pages that follow from the code: the cards of every registry, and the theory's checks.

They are written into ``generated/`` before Sphinx reads the pages, and are not kept in the repository.
"""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orcu.io import text
from orcu.io.files import atomic_write

LABELS = (0, 1, 2)  # of five classes; the others are their mirror images
SCALES = (0.3, 3.0, 10.0)


def write(docs: Path) -> None:
    """Write all of them below ``docs/generated``."""
    folder = docs / "generated"
    folder.mkdir(exist_ok=True)
    pages = {
        "losses": losses(),
        "metrics": metrics(),
        "calibrators": calibrators(),
        "data": data(),
        "figures": figures(),
        "theory_checks": theory_checks(),
    }
    for name, page in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != page:  # or all is built anew
            with atomic_write(file) as fresh:
                fresh.write_text(page, encoding="utf-8")


def losses() -> str:
    """A card for each loss and regularizer."""
    from orcu.losses.base import LOSSES, REGULARIZERS

    lines = [
        "# The losses, one by one",
        "",
        "What `orcu losses show NAME` prints, for all. How they are named and combined: [Losses](../losses.md).",
    ]
    for kind, registry in (("Losses", LOSSES), ("Regularizers", REGULARIZERS)):
        lines += ["", f"## {kind}"]
        for name in registry.names():
            loss = registry.get(name)
            card = loss.card
            labels = "integers, or distributions (n, C)" if loss.soft_labels else "integers only"
            options = ", ".join(f"`{key}={value!r}`" for key, value in card.defaults.items())
            batch = "a statistic of the whole batch" if loss.batch_statistic else ""
            lines += ["", f"### `{name}`: {card.title}", ""]
            lines.append(
                _pairs(
                    {
                        "family": card.family,
                        "paper": card.paper,
                        "formula": f"`{card.formula}`",
                        "options": options or "none",
                        "labels": labels,
                        "batch": batch,
                        "notes": card.notes,
                        "class": f"`{loss.__module__}.{loss.__name__}`",
                    }
                )
            )
    return _page(lines)


def metrics() -> str:
    """What each metric says of itself."""
    from orcu import metrics as package
    from orcu.metrics.base import all_metrics

    lines = [
        "# The metrics, one by one",
        "",
        "Each is a function of `orcu.metrics`, a column of tables, and a name for gates (`--fail-if`). Conventions:"
        " [Judging predictions](../evaluate.md#the-metrics-and-their-conventions).",
        "",
    ]
    rows = []
    for metric in all_metrics():
        what = _first_line(getattr(package, metric.name))
        better = "near 0" if metric.better == "zero" else metric.better
        rows.append([f"`{metric.name}`", what, metric.convention_for(), metric.family, better])
    return _page([*lines, _table(["name", "what", "convention", "family", "better"], rows)])


def calibrators() -> str:
    """What each calibrator says of itself, with its options."""
    from orcu.calibrators.base import CALIBRATORS

    lines = [
        "# The calibrators, one by one",
        "",
        "By name in `orcu.calibrators.create`, `orcu calibrate fit --method` and specs; joined by `+` they are a chain."
        " Which to take: [Calibrating predictions](../calibrators.md).",
    ]
    for name in CALIBRATORS.names():
        kind = CALIBRATORS.get(name)
        options = {
            one.name: one.default for one in inspect.signature(kind).parameters.values() if one.kind is one.KEYWORD_ONLY
        }
        defaults = ", ".join(f"`{key}={value!r}`" for key, value in options.items())
        lines += ["", f"## `{name}`", "", _first_line(kind), ""]
        lines.append(_pairs({"options": defaults or "none", "class": f"`orcu.calibrators.{kind.__name__}`"}))
    return _page(lines)


def data() -> str:
    """The card of each data set."""
    from orcu.data.base import DATASETS

    lines = [
        "# The data sets, one by one",
        "",
        "What `orcu data info NAME` prints. How they are prepared and divided: [Data](../data.md).",
    ]
    for name in DATASETS.names():
        kind = DATASETS.get(name)
        card = kind.card
        rows = f"{sum(card.counts):,} ({', '.join(f'{n:,}' for n in card.counts)})" if card.counts else ""
        lines += ["", f"## `{name}`", "", f"{card.title}.", ""]
        lines.append(
            _pairs(
                {
                    "kind": card.kind,
                    "classes": ", ".join(card.classes) or "your own",
                    "rows": rows,
                    "licence": card.licence,
                    "from": card.citation,
                    "how to get it": card.obtain,
                    "files": card.layout,
                    "protocols": ", ".join(f"`{one}`" for one in kind.protocols),
                    "notes": card.notes,
                }
            )
        )
    return _page(lines)


def figures() -> str:
    """What each figure shows and needs."""
    from orcu.figures.base import FIGURES

    lines = ["# The figures, one by one", "", "With pictures: [The figures](../figures.md).", ""]
    rows = []
    for name in FIGURES.names():
        kind = FIGURES.get(name)
        options = ", ".join(f"`{key}`" for key in kind.options())
        rows.append([f"`{name}`", kind.title, kind.paper, kind.needs or "nothing", options])
    return _page([*lines, _table(["name", "shows", "of the paper", "needs", "options"], rows)])


def theory_checks() -> str:
    """Every statement of the paper, measured for several labels and scales."""
    from orcu.theory import verify

    settings = [(label, scale) for label in LABELS for scale in SCALES]
    checks = {(label, scale): verify(num_classes=5, label=label, scale=scale) for label, scale in settings}
    lines = [
        "# The statements, checked",
        "",
        f"Five classes, labels {', '.join(map(str, LABELS))} and scales {', '.join(f'{s:g}' for s in SCALES)},"
        " measured when these pages were made by `orcu.theory.verify`. Shown are the numbers for label 2 and s = 3; the"
        f" last column counts in how many of the {len(settings)} settings the statement holds. What they say together:"
        " [The theory](../theory.md).",
        "",
    ]
    rows = []
    for k, check in enumerate(checks[2, 3.0]):
        holds = sum(bool(one[k].passed) for one in checks.values())
        mark = "✓" if check.passed else "✗" if check.passed is False else "?"
        measured = f"{check.measured:.3g}"
        rows.append([mark, check.statement, check.source, measured, check.requirement, f"{holds} of {len(settings)}"])
    headings = ["", "statement", "source", "measured", "must be", "holds in"]
    return _page([*lines, _table(headings, rows, "lllrlr")])


def _pairs(rows: dict[str, str]) -> str:
    return _table(["", ""], [[key, value] for key, value in rows.items() if value])


def _table(headings: list[str], rows: list[list[str]], align: str = "") -> str:
    """A table whose cells are Markdown, as cards and docstrings are."""
    cells = [[text.Cell(cell, markup=True) for cell in row] for row in rows]
    return text.markdown(headings, cells, align or "l" * len(headings)).rstrip("\n")


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
