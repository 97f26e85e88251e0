"""Tables as the paper prints them: mean and deviation over folds, best bold, second underlined."""

import os
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any, Literal

from orcu.bench.columns import column, heading
from orcu.bench.plan import Benchmark, Plan, status
from orcu.bench.significance import BETTER, WORSE, marks
from orcu.bench.spec import Spec
from orcu.errors import UnknownNameError
from orcu.io import text

FORMATS = ("markdown", "latex", "csv", "html")

NOTHING = "-"  # where a row has no such number
COLLAPSED = 0.1  # QWK below which a model has learned nothing
DAGGER = "‡"  # marks a collapsed model
COLLAPSED_NOTE = (
    f"{DAGGER} has collapsed (QWK below {COLLAPSED}): it says about the same of every row, and is not ranked."
)


@dataclass(frozen=True)
class Cell:
    """A metric over the folds and seeds of one loss: mean, sample standard deviation, how many."""

    mean: float
    std: float | None
    count: int
    rank: int = 0  # 1 best, 2 second, among the losses of one data set and calibrator
    versus: str = ""  # BETTER or WORSE, if a reference was asked for

    def text(self, metric: str) -> str:
        """The mean and the deviation, shares in percent."""
        factor, digits = (100, 2) if column(metric).percent else (1, 4 if metric == "alignment" else 3)
        spread = "" if self.std is None else f" ±{factor * self.std:.{digits}f}"
        mark = f" {self.versus}" if self.versus else ""
        return f"{factor * self.mean:.{digits}f}{spread}{mark}"


@dataclass(frozen=True)
class Line:
    """A row of a table."""

    data: str
    loss: str
    calibrator: str
    cells: dict[str, Cell]  # without those that the runs do not have
    collapsed: bool = False  # it says about the same of every row; its errors are small for no good reason

    def text(self, metric: str) -> str:
        """What stands in a cell."""
        return self.cells[metric].text(metric) if metric in self.cells else NOTHING

    @property
    def called(self) -> str:
        """The loss, with a dagger if the model has collapsed."""
        return f"{self.loss} {DAGGER}" if self.collapsed else self.loss

    def rank(self, metric: str) -> int:
        """1 for the best of its block, 2 for the second, 0 for the others."""
        return self.cells[metric].rank if metric in self.cells else 0


@dataclass(frozen=True)
class Table:
    """The table of a benchmark.

    Attributes:
        plan: whose finished runs it is of.
        lines: its rows.
        chosen: for each data set that selects: its name, the metric, and the loss that is best on validation rows.
    """

    plan: Plan
    lines: list[Line]
    chosen: list[tuple[str, str, str]]

    def text(self, form: str = "markdown") -> str:
        """The table as markdown, latex, csv or html.

        Raises:
            UnknownNameError: if the format is none of them.
        """
        return rendered(self.plan.spec, self.lines, form)


def table(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    more: str | None = None,
    against: str | None = None,
) -> Table:
    """The table of a benchmark: mean and standard deviation over folds, the best and the second of each block.

    Args:
        spec: a TOML file, the name of a spec that comes with orcu, a spec, or a plan.
        results: the folder of all results; ``$ORCU_RESULTS``, or ``results`` by default.
        more: the name of further losses in the spec, such as grid of ablation.
        against: a loss; what is better (▲) or worse (▼) than it beyond chance is marked.

    Raises:
        InputError: if the spec cannot be used, no run is finished, or there is no such loss to compare with.
    """
    plan = status(spec, results=results, more=more)
    plan.some_finished()
    versus = None if against is None else marks(plan, against)
    return Table(plan, lines(plan.spec, plan.records(), versus), chosen(plan.spec, plan.records("validation")))


def lines(
    spec: Spec, records: list[dict[str, Any]], versus: dict[tuple[str, str, str, str], str] | None = None
) -> list[Line]:
    """The rows of a spec's table, in the spec's order; losses without finished runs are left out.

    Args:
        spec: the benchmark.
        records: of `orcu.bench.collect.records`.
        versus: marks by data, loss, calibrator and metric, from `orcu.bench.significance.marks`.
    """
    versus = versus or {}
    rows = []
    for data in spec.data:
        for calibrator in spec.calibrator_names:
            block = []
            for name in spec.row_names:
                mine = [r for r in records if (r["data"], r["loss"], r["calibrator"]) == (data.title, name, calibrator)]
                if mine:
                    cells = {
                        c: _cell(mine, c, versus.get((data.title, name, calibrator, c), ""))
                        for c in spec.columns
                        if all(c in record for record in mine)  # of a fold where it is infinite there is none
                    }
                    kappas = [record["qwk"] for record in mine if "qwk" in record]
                    collapsed = bool(kappas) and mean(kappas) < COLLAPSED
                    block.append(Line(data.title, name, calibrator, cells, collapsed))
            rows += _ranked(block)
    return rows


def rendered(spec: Spec, table: list[Line], form: str) -> str:
    """A table as text.

    Raises:
        UnknownNameError: if the format is none of them.
    """
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    several = len(spec.calibrators) > 1
    names = ["data", "loss", *(["calibrator"] if several else [])]
    if form == "csv":
        return _csv(spec, table, names)
    headings = [*names, *(heading(name) for name in spec.columns)]
    emphasis: dict[int, Literal["best", "second"]] = {1: "best", 2: "second"}
    rows = [
        [
            *(line.called if name == "loss" else getattr(line, name) for name in names),
            *(text.Cell(line.text(name), emphasis.get(line.rank(name), "")) for name in spec.columns),
        ]
        for line in table
    ]
    if form == "html":
        return text.html(headings, rows)
    align = "l" * len(names) + "r" * len(spec.columns)
    return text.latex(headings, rows, align) if form == "latex" else text.markdown(headings, rows, align)


def chosen(spec: Spec, validation: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """For each data set that selects: its name, the metric, and the loss that is best on validation rows.

    Args:
        spec: the benchmark.
        validation: its records with ``rows="validation"``.
    """
    best = []
    for data in spec.data:
        means: dict[str, float] = {}
        for name in spec.row_names:
            mine = [r for r in validation if (r["data"], r["loss"]) == (data.title, name)]
            if mine and data.select and all(data.select in record for record in mine):
                means[name] = mean(float(record[data.select]) for record in mine)
        if means:
            cost = column(data.select).cost
            best.append((data.title, data.select, min(means, key=lambda name: cost(means[name]))))
    return best


def _cell(records: list[dict[str, Any]], metric: str, versus: str) -> Cell:
    values = [float(record[metric]) for record in records]
    spread = stdev(values) if len(values) > 1 else None
    return Cell(mean(values), spread, len(values), versus=versus)


def _ranked(block: list[Line]) -> list[Line]:
    """The lines with each cell's place: one more than the losses that are strictly better; collapsed ones have none."""
    ranked = []
    for line in block:
        cells = {}
        for name, cell in line.cells.items():
            cost = column(name).cost
            rivals = [cost(one.cells[name].mean) for one in block if name in one.cells and not one.collapsed]
            better = sum(rival < cost(cell.mean) for rival in rivals)
            placed = better < 2 and len(rivals) > 2 and not line.collapsed
            cells[name] = replace(cell, rank=better + 1 if placed else 0)
        ranked.append(replace(line, cells=cells))
    return ranked


def _csv(spec: Spec, table: list[Line], names: list[str]) -> str:
    """Every digit: mean, deviation and count in columns of their own."""
    marked = any(cell.versus for line in table for cell in line.cells.values())
    collapsed = any(line.collapsed for line in table)
    parts = ("", "_std", "_count", *(["_versus"] if marked else []))
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
                row.append({BETTER: "better", WORSE: "worse"}.get(cell.versus if cell else "", ""))
        rows.append([*row, *(["collapsed" if line.collapsed else ""] if collapsed else [])])
    headings = [*names, *(f"{name}{part}" for name in spec.columns for part in parts)]
    return text.csv([*headings, *(["collapsed"] if collapsed else [])], rows)
