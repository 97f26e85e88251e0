"""Pages that are generated from the code: one for each registry, and the checks of the theory.

They are written into ``generated/`` before Sphinx reads the pages. They are not in the repository.
"""

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from orcu.io.files import atomic_write
from orcu.report import text_tables

LABELS = (0, 1, 2)  # true classes of five; the others are their mirror images
SCALES = (0.3, 3.0, 10.0)


def write(docs: Path) -> None:
    """Write all pages into ``docs/generated``."""
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
        if not file.exists() or file.read_text(encoding="utf-8") != page:  # an unchanged page is not built again
            with atomic_write(file) as fresh:
                fresh.write_text(page, encoding="utf-8")


def losses() -> str:
    """The page of the losses and regularizers."""
    from orcu.losses.base import LOSSES, REGULARIZERS

    lines = [
        "# List of losses",
        "",
        "`orcu losses show NAME` prints one of these entries. [Losses](../losses.md) describes their names.",
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
    """The page of the metrics."""
    from orcu import metrics as package
    from orcu.metrics.base import all_metrics

    lines = [
        "# List of metrics",
        "",
        "Each metric is a function of `orcu.metrics`, a column of tables, and a name for gates (`--fail-if`)."
        " [Evaluating predictions](../evaluate.md#metrics-and-conventions) describes the conventions.",
        "",
    ]
    rows = []
    for metric in all_metrics():
        definition = _summary(getattr(package, metric.name))
        better = "near 0" if metric.better == "zero" else metric.better
        rows.append([f"`{metric.name}`", definition, metric.convention_for(), metric.family, better])
    return _page([*lines, _table(["name", "definition", "convention", "family", "better"], rows)])


def calibrators() -> str:
    """The page of the calibrators and their options."""
    from orcu.calibrators.base import CALIBRATORS

    lines = [
        "# List of calibrators",
        "",
        "These names work in `orcu.calibrators.create`, in `orcu calibrate fit --calibrator` and in specs."
        " Names joined by `+` are a chain. [Calibrating predictions](../calibrators.md) says which one to use.",
    ]
    for name in CALIBRATORS.names():
        kind = CALIBRATORS.get(name)
        options = {
            parameter.name: parameter.default
            for parameter in inspect.signature(kind).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        defaults = ", ".join(f"`{key}={value!r}`" for key, value in options.items())
        lines += ["", f"## `{name}`", "", _summary(kind), ""]
        lines.append(_pairs({"options": defaults or "none", "class": f"`orcu.calibrators.{kind.__name__}`"}))
    return _page(lines)


def data() -> str:
    """The page of the data sets."""
    from orcu.data.base import DATASETS

    lines = [
        "# List of data sets",
        "",
        "`orcu data info NAME` prints one of these entries. [Data](../data.md) describes preparation and splits.",
    ]
    for name in DATASETS.names():
        kind = DATASETS.get(name)
        card = kind.card
        rows = f"{sum(card.counts):,} ({', '.join(f'{count:,}' for count in card.counts)})" if card.counts else ""
        lines += ["", f"## `{name}`", "", f"{card.title}.", ""]
        lines.append(
            _pairs(
                {
                    "kind": card.kind,
                    "classes": ", ".join(card.classes) or "defined by your data",
                    "rows": rows,
                    "licence": card.licence,
                    "source": card.citation,
                    "how to obtain it": card.obtain,
                    "files": card.layout,
                    "protocols": ", ".join(f"`{protocol}`" for protocol in kind.protocols),
                    "notes": card.notes,
                }
            )
        )
    return _page(lines)


def figures() -> str:
    """The page of the figures."""
    from orcu.figures.base import FIGURES

    lines = ["# List of figures", "", "[Figures](../figures.md) has pictures of them.", ""]
    rows = []
    for name in FIGURES.names():
        kind = FIGURES.get(name)
        options = ", ".join(f"`{key}`" for key in kind.options())
        rows.append([f"`{name}`", kind.title, kind.paper, kind.needs or "nothing", options])
    return _page([*lines, _table(["name", "content", "in the paper", "needs", "options"], rows)])


def theory_checks() -> str:
    """The page of the theory checks: the statements of the paper for several true classes and scales."""
    from orcu.theory import verify

    settings = [(label, scale) for label in LABELS for scale in SCALES]
    checks = {(label, scale): verify(num_classes=5, label=label, scale=scale) for label, scale in settings}
    lines = [
        "# Checks of the theory",
        "",
        "`orcu.theory.verify` computed these numbers when the site was built, for five classes, the labels"
        f" {', '.join(map(str, LABELS))} and the scales {', '.join(f'{scale:g}' for scale in SCALES)}. The numbers are"
        f" those for label 2 and s = 3. The last column is the number of the {len(settings)} settings in which the"
        " statement holds. [Theory](../theory.md) discusses the results.",
        "",
    ]
    rows = []
    for number, check in enumerate(checks[2, 3.0]):
        holds = sum(bool(results[number].passed) for results in checks.values())
        mark = "✓" if check.passed else "✗" if check.passed is False else "?"
        measured = f"{check.measured:.3g}"
        rows.append([mark, check.statement, check.source, measured, check.requirement, f"{holds} of {len(settings)}"])
    headings = ["", "statement", "source", "measured", "must be", "holds in"]
    return _page([*lines, _table(headings, rows, "lllrlr")])


def _pairs(rows: dict[str, str]) -> str:
    return _table(["", ""], [[key, value] for key, value in rows.items() if value])


def _table(headings: list[str], rows: list[list[str]], align: str = "") -> str:
    """A Markdown table whose cells are Markdown."""
    cells = [[text_tables.Cell(cell, markup=True) for cell in row] for row in rows]
    return text_tables.markdown(headings, cells, align or "l" * len(headings)).rstrip("\n")


def _summary(thing: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
