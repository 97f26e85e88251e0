"""Numbers of the ORCU paper: comparison with our results, and tables in the paper's layout."""

import csv
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from orcu.bench.columns import title_heading
from orcu.bench.plan import Benchmark, status
from orcu.bench.spec import DataSpec, LossSpec, Spec, TwoStage, loss_name
from orcu.bench.tables import (
    CSV_COLUMNS,
    DAGGER,
    EMPHASIS,
    FORMATS,
    MISSING,
    Cell,
    Line,
    Table,
    latex_formula,
    lines,
    render_rows,
)
from orcu.errors import InputError, UnknownNameError
from orcu.figures.titles import LOSS_TITLES, data_title, loss_title
from orcu.report import text_tables

# All numbers of the tables of the ORCU paper (Kim, Chung and Jang), times 100 except A_TF.
PAPER = Path(__file__).with_name("paper_results.csv")
# Names in the paper and in the registry of losses.
PAPER_LOSSES = {title: name for name, title in LOSS_TITLES.items()}
PAPER_METRICS = {
    "SCE": "sce",
    "ACE": "ace",
    "ECE": "ece",
    "Unimodal": "unimodality",
    "Acc": "accuracy",
    "QWK": "qwk",
    "MAE": "mae",
    "A_TF (feasible set)": "alignment",
    "Act (feasible set)": "feasible_active",
    "SCE (feasible set)": "feasible_sce",
    "ECE (feasible set)": "feasible_ece",
}
PAPER_TABLES = {
    "two_stage": "Table II",
    "main": "Table III",
    "classification": "Table IV and appendix Table IV",
    "posthoc": "Table V",
    "text": "Table VI",
    "ablation": "Table VII and appendix Table V",
    "backbones": "appendix Tables II and III",
}
LOSSES_AS_ROWS = {"two_stage", "ablation"}  # tables of the paper with a row for each loss, not for each metric
ORCU_SCALE, TEXT_SCALE = 3.0, 0.05  # s for images and for texts
# Fields of a data set that define the paper's task (Appendix II-B), which does not state the border of rotations.
_TASK = ("options", "protocol", "backbone", "weights", "frozen", "size", "augment", "training")


@dataclass(frozen=True)
class Published:
    """A number of the paper, times 100 except A_TF."""

    table: str
    dataset: str
    backbone: str
    loss: str
    posthoc: str
    metric: str
    mean: float
    std: float | None
    conflict: str  # inconsistency of the paper's tables, which makes the number no reproduction target


@cache
def published() -> tuple[Published, ...]:
    """All numbers of the paper's tables.

    Example:
        >>> len(published()), published()[0].mean
        (862, 8.48)
    """
    with PAPER.open(encoding="utf-8", newline="") as file:
        return tuple(
            Published(**{**row, "mean": float(row["mean"]), "std": float(row["std"]) if row["std"] else None})  # type: ignore[arg-type]
            for row in csv.DictReader(file)
        )


@dataclass(frozen=True)
class Comparison:
    """Our results next to the paper's.

    Attributes:
        rows: a row for each number that both have for the same task, with keys table, data, loss, calibrator, metric,
            paper, paper_std, ours, ours_std, difference, in_std (the difference divided by the combined standard
            deviation), folds and conflict.
        not_compared: differences from the paper's task, by data set.
    """

    rows: list[dict[str, Any]]
    not_compared: dict[str, list[str]]


def compare(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    extra: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Comparison:
    """Compare our results with the paper's where the task is the same; arguments as for `orcu.bench.table`.

    Raises:
        InputError: if the spec corresponds to no table of the paper, or no run is finished.
    """
    plan = status(spec, results=results, extra=extra, overrides=overrides)
    if not plan.spec.paper:
        raise InputError(f"{plan.spec.name}: no table of the paper to compare with (the spec has no paper = [...]).")
    plan.require_finished()
    return compare_lines(plan.spec, lines(plan.spec, plan.records()))


def compare_lines(spec: Spec, table: list[Line]) -> Comparison:
    """Compare the rows of a table with the paper's numbers for the same task, loss and calibrator."""
    rows, not_compared = list[dict[str, Any]](), dict[str, list[str]]()
    for data in spec.data:
        different = differences(data, spec)
        if different:
            not_compared[data.title] = different
            continue
        for loss in spec.losses:
            if not _has_paper_settings(loss, data):
                not_compared[f"{data.title}, {loss_name(loss)}"] = [f"{_short(loss)}: settings differ from the paper's"]
        for number, line, cell in _matches(spec, data, table):
            if f"{line.data}, {line.loss}" in not_compared:
                continue
            factor = _factor(PAPER_METRICS[number.metric])
            ours, ours_std = factor * cell.mean, None if cell.std is None else factor * cell.std
            spread = math.hypot(number.std or 0.0, ours_std or 0.0)
            rows.append(
                {
                    "table": number.table,
                    "data": line.data,
                    "loss": line.loss,
                    "calibrator": line.calibrator,
                    "metric": PAPER_METRICS[number.metric],
                    "paper": number.mean,
                    "paper_std": number.std,
                    "ours": ours,
                    "ours_std": ours_std,
                    "difference": ours - number.mean,
                    "in_std": (ours - number.mean) / spread if spread else None,
                    "folds": cell.count,
                    "conflict": number.conflict,
                }
            )
    return Comparison(rows, not_compared)


def differences(data: DataSpec, spec: Spec) -> list[str]:
    """Differences between a data set of a spec and the paper's task; empty if they are the same.

    Example:
        >>> from orcu.bench.spec import load_spec
        >>> main = load_spec("main")
        >>> small = main.data[0].model_copy(update={"size": 96, "training": {"epochs": 4}})
        >>> differences(main.data[0], main), differences(small, main)
        ([], ['size 96, in the paper 224', "training {'epochs': 4}, in the paper {}"])
    """
    numbers = [number for number in published() if number.table in spec.paper]
    if data.set not in {number.dataset for number in numbers}:
        return [f"set {data.set}, which is not in these tables of the paper"]
    backbones = sorted({number.backbone for number in numbers if number.dataset == data.set})
    backbone = data.backbone if data.backbone in backbones else backbones[0]
    task = DataSpec(set=data.set, protocol="paper", backbone=backbone)
    different = [
        f"{name} {getattr(data, name)!r}, in the paper {getattr(task, name)!r}"
        for name in _TASK
        if getattr(data, name) != getattr(task, name)
    ]
    if spec.two_stage is not None and spec.two_stage != TwoStage():
        different.append(f"two_stage {spec.two_stage.model_dump()}, in the paper {TwoStage().model_dump()}")
    return different


def _short(loss: LossSpec) -> LossSpec:
    """A loss for messages, without the text of its file."""
    return loss if isinstance(loss, str) else {key: value for key, value in loss.items() if key != "source"}


def _has_paper_settings(loss: str | dict[str, Any], data: DataSpec) -> bool:
    """Whether a loss has the paper's settings: no options, except the scale that the paper uses for the data."""
    options = {} if isinstance(loss, str) else {key: loss[key] for key in loss if key not in {"name", "label"}}
    if loss == "orcu" or (isinstance(loss, dict) and loss.get("name") == "orcu"):
        scale = options.pop("scale", ORCU_SCALE)
        if scale != (TEXT_SCALE if data.set == "sst5" else ORCU_SCALE):
            return False
    return options.keys() <= {"anchor", "regularizer", "distance"}  # part of the labels of the ablation


def _matches(spec: Spec, data: DataSpec, table: list[Line]) -> Iterator[tuple[Published, Line, Cell]]:
    """Numbers of the paper with the row and cell of our table for the same quantity."""
    for number in published():
        if number.table not in spec.paper or (number.dataset, number.backbone) != (data.set, data.backbone):
            continue
        loss = PAPER_LOSSES.get(number.loss, number.loss)  # rows of the ablation have the paper's names
        metric = PAPER_METRICS.get(number.metric, "")
        for line in table:
            if (line.data, line.loss, line.calibrator) == (data.title, loss, number.posthoc) and metric in line.cells:
                yield number, line, line.cells[metric]


def _factor(metric: str) -> int:
    """Factor between our values and the paper's."""
    return 1 if metric == "alignment" else 100


@dataclass(frozen=True)
class PaperTable:
    """A table in the paper's layout: a row for each metric and a column for each loss, or the other way around.

    Attributes:
        title: number of the paper's table.
        headings: names such as data, calibrator and metric, then the losses or the metrics.
        rows: cells.
        num_names: number of first columns with names.
        rules: number of first columns with a rule between their blocks in latex.
    """

    title: str
    headings: list[str]
    rows: list[list[str | text_tables.Cell]]
    num_names: int
    rules: int

    def text(self, form: str = "markdown") -> str:
        """The table as markdown, latex, csv or html.

        Raises:
            UnknownNameError: if the format is unknown.
        """
        if form not in FORMATS:
            raise UnknownNameError("format", form, FORMATS)
        if form == "csv":
            return text_tables.csv(self.headings, [list(map(_plain, row)) for row in self.rows])
        if form != "latex":
            return render_rows(self.headings, self.rows, self.num_names, form)
        rows = [list(map(_formula, row)) for row in self.rows]
        names = ["Data set" if name == "data" else name.capitalize() for name in self.headings[: self.num_names]]
        headings = [*names, *map(_formula, self.headings[self.num_names :])]
        return render_rows(headings, rows, self.num_names, form, merge=self.num_names - 1, rules=self.rules)


def _plain(cell: str | text_tables.Cell) -> str:
    return cell.text if isinstance(cell, text_tables.Cell) else cell


def _formula(cell: str | text_tables.Cell) -> str | text_tables.Cell:
    return latex_formula(cell) if isinstance(cell, str) else cell


def paper_text(results: Table, form: str = "markdown", *, paper: bool = False) -> str:
    """The tables of `paper_layout` as markdown, latex, csv or html, with spec, seeds and versions.

    Args:
        results: table of a benchmark.
        form: format.
        paper: add the paper's numbers.

    Raises:
        UnknownNameError: if the format is unknown.
    """
    parts = paper_layout(results.plan.spec, results.lines, paper=paper)
    if form == "csv":  # all tables of a spec have the same columns
        more = results.plan.provenance
        rows = [[part.title, *map(_plain, row), *more.values()] for part in parts for row in part.rows]
        return text_tables.csv(["table", *parts[0].headings, *(CSV_COLUMNS.get(key, key) for key in more)], rows)
    text = "\n".join(
        text_tables.comment(part.title, form) + "\n" * (form != "latex") + part.text(form) for part in parts
    )
    return results.with_comments(text, form)


def paper_layout(spec: Spec, table: list[Line], *, paper: bool = False) -> list[PaperTable]:
    """A benchmark's results in the paper's layout, one table for each corresponding table of the paper.

    Values are times 100 with two digits except A_TF, as mean ± standard deviation; the best is bold, the second best
    underlined. Tables II and VII have a row for each loss, the others a row for each metric.

    Args:
        spec: the benchmark; without a corresponding table of the paper the result is one table of all its columns.
        table: rows of the benchmark's table.
        paper: add the paper's numbers for the same data set and backbone; `compare` tells whether the task is the same.
    """
    numbers = [number for number in published() if number.table in spec.paper]
    default = "two_stage" if spec.two_stage else ""
    tables = []
    for name in spec.paper or [default]:
        wanted = [PAPER_METRICS[metric] for metric in dict.fromkeys(n.metric for n in numbers if n.table == name)]
        metrics = [metric for metric in wanted or spec.columns if metric in spec.columns]
        if name in LOSSES_AS_ROWS:  # the first loss of Table II lacks two metrics, so the file has them last
            metrics.sort(key=spec.columns.index)
        title = PAPER_TABLES[name] if name in spec.paper else spec.title or spec.name
        make = _by_loss if name in LOSSES_AS_ROWS else _by_metric
        tables.append(make(spec, table, metrics, [n for n in numbers if n.table == name] if paper else None, title))
    return tables


def _by_metric(
    spec: Spec, table: list[Line], metrics: list[str], numbers: list[Published] | None, title: str
) -> PaperTable:
    """A row for each metric, a column for each loss; ``numbers`` of the paper are further rows."""
    losses = list(dict.fromkeys(line.loss for line in table))
    several = len(spec.calibrators) > 1
    names = ["data", *(["calibrator"] if several else []), "metric", *(["source"] if numbers is not None else [])]
    rows: list[list[str | text_tables.Cell]] = []
    for data in spec.data:
        for calibrator in spec.calibrator_names:
            block = {line.loss: line for line in table if (line.data, line.calibrator) == (data.title, calibrator)}
            for metric in metrics if block else []:
                start = [data_title(data.title), *([calibrator] if several else []), _metric_name(metric)]
                cells = [_cell(block.get(loss), metric) for loss in losses]
                rows.append([*start, *(["ours"] if numbers is not None else []), *cells])
                published_cells = _paper_cells(numbers or [], data, calibrator, metric)
                if published_cells:
                    rows.append([*start, "paper", *(published_cells.get(loss, MISSING) for loss in losses)])
    headings = [*names, *map(loss_title, losses)]
    return PaperTable(title + spec.set_options, headings, rows, len(names), 1 + several)


def _by_loss(
    spec: Spec, table: list[Line], metrics: list[str], numbers: list[Published] | None, title: str
) -> PaperTable:
    """A row for each loss, a column for each metric; the name of a single data set is part of the title."""
    several_data, several = len(spec.data) > 1, len(spec.calibrators) > 1
    combinations = [_combination(line.loss) for line in table]
    are_combinations = all(len(parts) == 2 for parts in combinations)
    names = [
        *(["data"] if several_data else []),
        *(["calibrator"] if several else []),
        *(["distance", "regularizer"] if are_combinations else ["branch" if spec.two_stage else "loss"]),
        *(["source"] if numbers is not None else []),
    ]
    rows: list[list[str | text_tables.Cell]] = []
    by_title = {data.title: data for data in spec.data}
    for line, parts in zip(table, combinations, strict=True):
        start = [*([data_title(line.data)] if several_data else []), *([line.calibrator] if several else [])]
        start += parts if are_combinations else [loss_title(line.loss)]
        cells = [_cell(line, metric) for metric in metrics]
        rows.append([*start, *(["ours"] if numbers is not None else []), *cells])
        published_cells = [
            _paper_cells(numbers or [], by_title[line.data], line.calibrator, metric).get(line.loss, MISSING)
            for metric in metrics
        ]
        if any(cell != MISSING for cell in published_cells):
            rows.append([*start, "paper", *published_cells])
    where = "" if several_data else f", {data_title(spec.data[0].title)}"
    headings = [*names, *map(_metric_name, metrics)]
    return PaperTable(title + where + spec.set_options, headings, rows, len(names), several_data + several)


def _combination(loss: str) -> list[str]:
    """Distance and regularizer of a row of the ablation, or the name alone.

    Example:
        >>> _combination("SoftCE(Squared)+LBE"), _combination("SoftCE(Squared)+none"), _combination("ce")
        (['Squared', 'LBE'], ['Squared', '-'], ['ce'])
    """
    parts = re.fullmatch(r"SoftCE\((\w+)\)\+(\w+)", loss)
    return [parts[1], MISSING if parts[2] == "none" else parts[2]] if parts else [loss]


def _metric_name(metric: str) -> str:
    return title_heading(metric, times_100=metric != "alignment")


def _number(metric: str, mean: float, std: float | None) -> str:
    """Mean and deviation in the paper's units and digits."""
    digits = 4 if metric == "alignment" else 2
    return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _cell(line: Line | None, metric: str) -> str | text_tables.Cell:
    if line is None or metric not in line.cells:
        return MISSING
    cell, factor = line.cells[metric], _factor(metric)
    mark = (f" {cell.mark}" if cell.mark else "") + (f" {DAGGER}" if line.collapsed else "")
    number = _number(metric, factor * cell.mean, None if cell.std is None else factor * cell.std)
    return text_tables.Cell(number + mark, EMPHASIS.get(cell.rank, ""))


def _paper_cells(numbers: list[Published], data: DataSpec, calibrator: str, metric: str) -> dict[str, str]:
    """The paper's cells of a data set, calibrator and metric by loss; inconsistent numbers are marked."""
    cells = {}
    for number in numbers:
        if (number.dataset, number.backbone, number.posthoc) == (
            data.set,
            data.backbone,
            calibrator,
        ) and PAPER_METRICS.get(number.metric) == metric:
            mark = " †" if number.conflict else ""
            text = _number(metric, number.mean, number.std) + mark
            cells[PAPER_LOSSES.get(number.loss, number.loss)] = text
    return cells
