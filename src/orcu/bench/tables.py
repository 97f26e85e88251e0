"""Result tables: mean and standard deviation over folds, best value bold, second best underlined."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any, Literal

from orcu.bench.columns import column, heading
from orcu.bench.plan import Benchmark, Plan, status
from orcu.bench.significance import BETTER, WORSE, marks
from orcu.bench.spec import Spec
from orcu.errors import UnknownNameError
from orcu.report import text_tables

FORMATS = ("markdown", "latex", "csv", "html")

MISSING = "-"  # cell without a value
COLLAPSED = 0.1  # QWK below this value: the model has learned nothing
DAGGER = "‡"  # marks a collapsed model
COLLAPSED_NOTE = f"{DAGGER} collapsed (QWK below {COLLAPSED}): nearly constant predictions; not ranked."
EMPHASIS: dict[int, Literal["best", "second"]] = {1: "best", 2: "second"}  # by rank


@dataclass(frozen=True)
class Cell:
    """A metric over the folds and seeds of one loss: mean, sample standard deviation and number of runs."""

    mean: float
    std: float | None
    count: int
    rank: int = 0  # 1 best, 2 second best of the losses of a data set and calibrator, 0 for the others
    mark: str = ""  # BETTER or WORSE than the baseline, if there is one

    def text(self, metric: str) -> str:
        """Mean and standard deviation, shares in percent."""
        factor, digits = (100, 2) if column(metric).percent else (1, 4 if metric == "alignment" else 3)
        spread = "" if self.std is None else f" ±{factor * self.std:.{digits}f}"
        return f"{factor * self.mean:.{digits}f}{spread} {self.mark}".rstrip()


@dataclass(frozen=True)
class Line:
    """A row of a table."""

    data: str
    loss: str
    calibrator: str
    cells: dict[str, Cell]  # by metric, without the metrics that the runs do not have
    collapsed: bool = False  # nearly constant predictions, whose small errors mean nothing

    def text(self, metric: str) -> str:
        """Text of a cell."""
        return self.cells[metric].text(metric) if metric in self.cells else MISSING

    @property
    def title(self) -> str:
        """Name of the loss, with a dagger if the model has collapsed."""
        return f"{self.loss} {DAGGER}" if self.collapsed else self.loss

    def rank(self, metric: str) -> int:
        """1 for the best of its block, 2 for the second best, 0 for the others."""
        return self.cells[metric].rank if metric in self.cells else 0


@dataclass(frozen=True)
class Table:
    """The table of a benchmark.

    Attributes:
        plan: plan whose finished runs are shown.
        lines: rows.
        selected: name, metric and best loss on validation rows of each data set with ``select``.
    """

    plan: Plan
    lines: list[Line]
    selected: list[tuple[str, str, str]]

    def text(self, form: str = "markdown") -> str:
        """The table as markdown, latex, csv or html.

        Raises:
            UnknownNameError: if the format is unknown.
        """
        return render_table(self.plan.spec, self.lines, form)


def table(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    extra: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    baseline: str | None = None,
) -> Table:
    """The table of a benchmark: mean and standard deviation over folds, with the two best of each block.

    Args:
        spec: a spec or plan, as for `orcu.bench.status`; likewise ``results``, ``extra`` and
            ``overrides``.
        results: folder of all results.
        extra: name of one of the spec's lists of extra losses.
        overrides: values that replace those of every data set.
        baseline: name of a loss; significantly better (▲) or worse (▼) values than its are marked.

    Raises:
        InputError: if the spec is not valid, no run is finished, or the baseline is unknown.
    """
    plan = status(spec, results=results, extra=extra, overrides=overrides)
    plan.require_finished()
    by_cell = None if baseline is None else marks(plan, baseline)
    return Table(plan, lines(plan.spec, plan.records(), by_cell), select_best(plan.spec, plan.records("validation")))


def lines(
    spec: Spec, records: list[dict[str, Any]], marks: dict[tuple[str, str, str, str], str] | None = None
) -> list[Line]:
    """Rows of a spec's table, in the spec's order; losses without finished runs are left out.

    Args:
        spec: the benchmark.
        records: records of `Plan.records`.
        marks: significance marks by data, loss, calibrator and metric.
    """
    rows = []
    for data in spec.data:
        for calibrator in spec.calibrator_names:
            block = []
            for loss in spec.row_names:
                key = (data.title, loss, calibrator)
                runs = [r for r in records if (r["data"], r["loss"], r["calibrator"]) == key]
                if runs:
                    cells = {
                        metric: _cell(runs, metric, (marks or {}).get((*key, metric), ""))
                        for metric in spec.columns
                        if all(metric in run for run in runs)  # an infinite value of a fold is not stored
                    }
                    kappas = [run["qwk"] for run in runs if "qwk" in run]
                    collapsed = bool(kappas) and mean(kappas) < COLLAPSED
                    block.append(Line(data.title, loss, calibrator, cells, collapsed))
            rows += _rank(block)
    return rows


def render_table(spec: Spec, table: list[Line], form: str) -> str:
    """A table as text.

    Raises:
        UnknownNameError: if the format is unknown.
    """
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    names = ["data", "loss", *(["calibrator"] if len(spec.calibrators) > 1 else [])]
    if form == "csv":
        return _csv(spec, table, names)
    caption = text_tables.comment(f"set in all runs:{spec.set_options}", form) + "\n" if spec.overrides else ""
    headings = [*names, *(heading(name) for name in spec.columns)]
    rows = [
        [
            *(line.title if name == "loss" else getattr(line, name) for name in names),
            *(text_tables.Cell(line.text(name), EMPHASIS.get(line.rank(name), "")) for name in spec.columns),
        ]
        for line in table
    ]
    return caption + render_rows(headings, rows, len(names), form)


def render_rows(headings: list[str], rows: list[list[Any]], num_names: int, form: str) -> str:
    """Headings and rows as markdown, latex or html; the first ``num_names`` columns are left-aligned."""
    if form == "html":
        return text_tables.html(headings, rows)
    write = text_tables.latex if form == "latex" else text_tables.markdown
    return write(headings, rows, "l" * num_names + "r" * (len(headings) - num_names))


def select_best(spec: Spec, validation: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Name, metric and best loss on validation rows of each data set with ``select``.

    Args:
        spec: the benchmark.
        validation: records of `Plan.records` with ``split="validation"``.
    """
    best = []
    for data in spec.data:
        means: dict[str, float] = {}
        for name in spec.row_names:
            runs = [r for r in validation if (r["data"], r["loss"]) == (data.title, name)]
            if runs and data.select and all(data.select in run for run in runs):
                means[name] = mean(float(run[data.select]) for run in runs)
        if means:
            cost = column(data.select).cost
            best.append((data.title, data.select, min(means, key=lambda name: cost(means[name]))))
    return best


def _cell(runs: list[dict[str, Any]], metric: str, mark: str) -> Cell:
    values = [float(run[metric]) for run in runs]
    return Cell(mean(values), stdev(values) if len(values) > 1 else None, len(values), mark=mark)


def _rank(block: list[Line]) -> list[Line]:
    """Lines with the rank of each cell: one plus the number of strictly better losses; collapsed models have none."""
    ranked = []
    for line in block:
        cells = {}
        for name, cell in line.cells.items():
            cost = column(name).cost
            costs = [cost(other.cells[name].mean) for other in block if name in other.cells and not other.collapsed]
            better = sum(value < cost(cell.mean) for value in costs)
            is_ranked = better < 2 and len(costs) > 2 and not line.collapsed
            cells[name] = replace(cell, rank=better + 1 if is_ranked else 0)
        ranked.append(replace(line, cells=cells))
    return ranked


def _csv(spec: Spec, table: list[Line], names: list[str]) -> str:
    """All digits; mean, deviation, count and mark in separate columns."""
    marked = any(cell.mark for line in table for cell in line.cells.values())
    collapsed = any(line.collapsed for line in table)
    parts = ("", "_std", "_count", *(["_vs_baseline"] if marked else []))
    rows = []
    for line in table:
        row: list[Any] = [getattr(line, name) for name in names]
        for name in spec.columns:
            cell = line.cells.get(name)
            if cell is None:
                row += ["", "", 0]
            else:
                row += [repr(cell.mean), "" if cell.std is None else repr(cell.std), cell.count]
            if marked:
                row.append({BETTER: "better", WORSE: "worse"}.get(cell.mark if cell else "", ""))
        row += ["collapsed" if line.collapsed else ""] if collapsed else []
        rows.append([*row, *([spec.set_options.strip()] if spec.overrides else [])])
    headings = [*names, *(f"{name}{part}" for name in spec.columns for part in parts)]
    headings += ["collapsed"] if collapsed else []
    return text_tables.csv([*headings, *(["settings"] if spec.overrides else [])], rows)
