"""Result tables: mean and standard deviation over folds, best value bold, second best underlined."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any, Literal

from orcu.bench.columns import column, heading, title_heading
from orcu.bench.plan import Benchmark, Plan, status
from orcu.bench.significance import BETTER, METHOD, WORSE, marks
from orcu.bench.spec import Spec
from orcu.errors import UnknownNameError
from orcu.evaluation.ranks import COLLAPSED
from orcu.figures.titles import data_title, loss_title
from orcu.report import text_tables

FORMATS = ("markdown", "latex", "csv", "html")
CSV_COLUMNS = {  # of the parts of `Plan.provenance`
    "set in all runs": "settings",
    "versions of the runs": "run_versions",
    "versions of the table": "table_versions",
}

MISSING = "-"  # cell without a value
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
        return _with_dagger(self, self.loss)

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
        baseline: loss that the significance marks refer to, if there are any.
    """

    plan: Plan
    lines: list[Line]
    selected: list[tuple[str, str, str]]
    baseline: str | None = None

    def text(self, form: str = "markdown") -> str:
        """The table as markdown, latex, csv or html, with spec, seeds and versions.

        They are comments, and further columns of a CSV file, which has no comments that every reader skips. LaTeX has
        the paper's names of losses, data sets and metrics, and says in comments which packages it needs and what bold,
        underlined and marked values mean.

        Raises:
            UnknownNameError: if the format is unknown.
        """
        if form == "csv":
            return _csv(self.plan.spec, self.lines, baseline=self.baseline, provenance=self.plan.provenance)
        return self.with_comments(render_table(self.plan.spec, self.lines, form), form)

    def with_comments(self, text: str, form: str) -> str:
        """A table as markdown, latex or html with comments: above it in latex, below it in the others."""
        if form == "latex":
            packages = "booktabs, multirow" + (", amssymb" if self.baseline else "")
            notes = [rf"\usepackage{{{packages}}}", *self.legend, *_pairs(self.plan)]
            return "".join(text_tables.comment(note, form) for note in notes) + text
        return text + "\n" + text_tables.comment("; ".join(_pairs(self.plan)), "html")

    @property
    def legend(self) -> list[str]:
        """What the rows, deviations, emphasis and marks mean, in words that need no symbols."""
        spec, cells = self.plan.spec, [cell for line in self.lines for cell in line.cells.values()]
        rows = "rows of the set F" if spec.two_stage else f"{spec.split} rows"
        legend = [f"{rows}; {self._repeats()}"]
        if any(cell.rank for cell in cells):
            legend.append("bold: best, underlined: second best loss of a data set and calibrator")
        if self.baseline:
            name = loss_title(self.baseline)
            legend.append(f"triangle up: significantly better than {name}, triangle down: worse; {METHOD}")
        if any(line.collapsed for line in self.lines):
            legend.append(COLLAPSED_NOTE.replace(DAGGER, "double dagger:"))
        return legend

    def _repeats(self) -> str:
        """How many runs a mean is computed of, by data set where they differ."""
        by_text: dict[str, list[str]] = {}
        for data in self.plan.spec.data:
            repeats = {(run.job.fold, run.job.seed) for run in self.plan.finished if run.job.data.title == data.title}
            folds, seeds = len({fold for fold, _ in repeats}), len({seed for _, seed in repeats})
            parts = [f"{folds} fold{'s' * (folds > 1)}", *([f"{seeds} seeds"] if seeds > 1 else [])]
            if repeats:
                by_text.setdefault(" x ".join(parts), []).append(data_title(data.title))
        several = len(by_text) > 1
        texts = [f"{text} ({', '.join(names)})" if several else text for text, names in by_text.items()]
        return f"mean and sample standard deviation over {' and '.join(texts)}"


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
    selected = select_best(plan.spec, plan.records("validation"))
    return Table(plan, lines(plan.spec, plan.records(), by_cell), selected, baseline)


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
    if form == "csv":
        return _csv(spec, table)
    names = _names(spec)
    values = [
        [text_tables.Cell(line.text(name), EMPHASIS.get(line.rank(name), "")) for name in spec.columns]
        for line in table
    ]
    if form == "latex":
        several = len(spec.calibrators) > 1
        rows = []
        for line, cells in zip(table, values, strict=True):
            start = [data_title(line.data), *([line.calibrator] if several else [])]
            rows.append([*start, _with_dagger(line, loss_title(line.loss)), *cells])
        # The loss is the last of the names, so that each data set and calibrator is a block.
        headings = ["Data set", *(["Calibrator"] if several else []), "Loss"]
        titles = [latex_formula(title_heading(name)) for name in spec.columns]
        return render_rows([*headings, *titles], rows, len(names), form, merge=len(names) - 1)
    caption = text_tables.comment(f"set in all runs:{spec.set_options}", form) + "\n" if spec.overrides else ""
    rows = [
        [*(line.title if name == "loss" else getattr(line, name) for name in names), *cells]
        for line, cells in zip(table, values, strict=True)
    ]
    return caption + render_rows([*names, *(heading(name) for name in spec.columns)], rows, len(names), form)


def latex_formula(text: str) -> text_tables.Cell:
    r"""A text in LaTeX, with the quantity A_TF as a formula.

    Example:
        >>> latex_formula("A_TF ↑").text
        '$A_{\\mathrm{TF}}$ $\\uparrow$'
    """
    escaped = text_tables.escape_latex(text)
    return text_tables.Cell(escaped.replace(r"A\_TF", r"$A_{\mathrm{TF}}$"), markup=True)


def render_rows(
    headings: Sequence[str | text_tables.Cell],
    rows: list[list[Any]],
    num_names: int,
    form: str,
    *,
    merge: int = 0,
    rules: int | None = None,
) -> str:
    """Headings and rows as markdown, latex or html.

    Args:
        headings: cells of the first row.
        rows: cells of the other rows.
        num_names: number of first columns that are left-aligned.
        form: "markdown", "latex" or "html".
        merge: first columns whose equal cells are merged in latex, as for `orcu.report.text_tables.latex`.
        rules: first columns with rules between their blocks in latex, likewise.
    """
    align = "l" * num_names + "r" * (len(headings) - num_names)
    if form == "latex":
        return text_tables.latex(headings, rows, align, merge=merge, rules=rules)
    return text_tables.html(headings, rows) if form == "html" else text_tables.markdown(headings, rows, align)


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


def _with_dagger(line: Line, name: str) -> str:
    return f"{name} {DAGGER}" if line.collapsed else name


def _names(spec: Spec) -> list[str]:
    """First columns of a table."""
    return ["data", "loss", *(["calibrator"] if len(spec.calibrators) > 1 else [])]


def _pairs(plan: Plan) -> list[str]:
    return [f"{key}: {value}" for key, value in plan.provenance.items()]


def _csv(
    spec: Spec, table: list[Line], *, baseline: str | None = None, provenance: Mapping[str, str] | None = None
) -> str:
    """All digits; mean, deviation, count and mark in separate columns, and a last column for each part of provenance.

    Args:
        spec: the benchmark.
        table: rows of its table.
        baseline: loss of the marks; with it, every metric has a column of marks, also if no difference is significant.
        provenance: spec, seeds and versions, in columns because a comment would be a row for most readers.
    """
    marked = baseline is not None or any(cell.mark for line in table for cell in line.cells.values())
    collapsed = any(line.collapsed for line in table)
    parts = ("", "_std", "_count", *(["_vs_baseline"] if marked else []))
    names, more = _names(spec), dict(provenance or {})
    if baseline is not None:
        more = {"baseline": baseline, **more}
    if spec.overrides and "set in all runs" not in more:
        more["set in all runs"] = spec.set_options.strip()
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
        rows.append([*row, *more.values()])
    headings = [*names, *(f"{name}{part}" for name in spec.columns for part in parts)]
    headings += ["collapsed"] if collapsed else []
    return text_tables.csv([*headings, *(CSV_COLUMNS.get(key, key) for key in more)], rows)
