"""The paper's own tables: its numbers beside ours where the task is the same, and ours in its form."""

import csv
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from orcu.bench.columns import column, heading
from orcu.bench.plan import Benchmark, status
from orcu.bench.spec import DataSpec, Spec, TwoStage, loss_name
from orcu.bench.tables import DAGGER, FORMATS, Cell, Line, lines
from orcu.errors import InputError, UnknownNameError
from orcu.io import text

# Every number of the tables of the ORCU paper (Kim, Chung and Jang): times 100, A_TF aside.
PAPER = Path(__file__).with_name("paper_results.csv")
# The paper's labels and the registry's names; the one place that knows both.
PAPER_LOSSES = {
    "CE": "ce",
    "SORD": "sord",
    "CDW-CE": "cdw_ce",
    "CO2": "co2",
    "POE": "poe",
    "LS": "ls",
    "FLSD": "flsd",
    "MbLS": "mbls",
    "MDCA": "mdca",
    "ACLS": "acls",
    "ORCU": "orcu",
    "Hinge": "hinge",
}
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
PAPER_POSTHOC = {"none": "none", "TS": "TS", "DC": "DC"}  # as configs/posthoc.toml calls the paper's procedures
PAPER_TABLES = {
    "two_stage": "Table II",
    "main": "Table III",
    "classification": "Table IV and appendix Table IV",
    "posthoc": "Table V",
    "text": "Table VI",
    "ablation": "Table VII and appendix Table V",
    "backbones": "appendix Tables II and III",
}
# Where the paper's tables contradict themselves, or hold a number that looks copied: no targets to reproduce.
CONFLICTS = {
    ("main", "diabetic_retinopathy", "SORD", "Unimodal"): "99.00 in Table III, 99.90 in Table VII for the same runs",
    ("ablation", "diabetic_retinopathy", "SoftCE(Squared)+none", "Unimodal"): "99.90 in Table VII, 99.00 in Table III "
    "for the same runs",
    ("classification", "diabetic_retinopathy", "CO2", "QWK"): "the same as POE's, deviation included",
    ("classification", "diabetic_retinopathy", "POE", "QWK"): "the same as CO2's, deviation included",
    ("classification", "diabetic_retinopathy", "LS", "QWK"): "the same as FLSD's, deviation included",
    ("classification", "diabetic_retinopathy", "FLSD", "QWK"): "the same as LS's, deviation included",
    ("classification", "adience", "CDW-CE", "Acc"): "57.89 is underlined as the second best, beside 57.94 of MbLS",
    ("classification", "adience", "MbLS", "Acc"): "57.94 is not underlined, though it is above the 57.89 that is",
}
ORCU_SCALE, TEXT_SCALE = 3.0, 0.05  # s for images and for texts
# What a data set of a spec must have to be the paper's task (Appendix II-B); sets without a size are no images.
_TASK = ("options", "protocol", "backbone", "weights", "frozen", "size", "augment", "recipe")


@dataclass(frozen=True)
class Published:
    """A number of the paper, times 100, A_TF aside."""

    table: str
    dataset: str
    backbone: str
    loss: str
    posthoc: str
    metric: str
    mean: float
    std: float | None

    @property
    def conflict(self) -> str:
        """What the paper says elsewhere, if it contradicts itself here."""
        return CONFLICTS.get((self.table, self.dataset, self.loss, self.metric), "")


@cache
def published() -> tuple[Published, ...]:
    """Every number of the paper's tables.

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
    """Our numbers beside the paper's.

    Attributes:
        rows: one for each number that both have for the same task: table, data, loss, calibrator, metric, paper,
            paper_std, ours, ours_std, difference, in_units (of both standard deviations together), folds, conflict.
        unlike: what differs from the paper's task, for each data set of the spec that is not compared.
    """

    rows: list[dict[str, Any]]
    unlike: dict[str, list[str]]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def compare(spec: Benchmark, *, results: str | os.PathLike[str] | None = None, more: str | None = None) -> Comparison:
    """Our numbers beside the paper's, where the task is the same; arguments as for `orcu.bench.table`.

    Raises:
        InputError: if the spec answers no table of the paper, or no run is finished.
    """
    plan = status(spec, results=results, more=more)
    if not plan.spec.paper:
        raise InputError(
            f"nothing to compare: {plan.spec.name} answers no table of the paper (its spec has no paper = [...])."
        )
    if not plan.finished:
        raise InputError(
            f"nothing to compare: no run of {plan.spec.name} is finished yet; `orcu bench run {plan.called}` does them."
        )
    return compared(plan.spec, lines(plan.spec, plan.records()))


def compared(spec: Spec, table: list[Line]) -> Comparison:
    """The rows of a table beside the paper's numbers for the same task, loss and calibrator."""
    rows, unlike = list[dict[str, Any]](), dict[str, list[str]]()
    for data in spec.data:
        differs = differences(data, spec)
        if differs:
            unlike[data.title] = differs
            continue
        for loss in spec.losses:
            if not _has_the_papers_settings(loss, data):
                unlike[f"{data.title}, {loss_name(loss)}"] = [f"{loss}: other settings than the paper's"]
        for number, line, cell in _pairs(spec, data, table):
            if f"{line.data}, {line.loss}" in unlike:
                continue
            ours = _scaled(number.metric, cell.mean)
            ours_std = None if cell.std is None else _scaled(number.metric, cell.std)
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
                    "in_units": (ours - number.mean) / spread if spread else None,
                    "folds": cell.count,
                    "conflict": number.conflict,
                }
            )
    return Comparison(rows, unlike)


def differences(data: DataSpec, spec: Spec) -> list[str]:
    """In what a data set of a spec is another task than the paper's; nothing if it is the same.

    Example:
        >>> from orcu.bench.spec import load_spec
        >>> main = load_spec("main")
        >>> small = main.data[0].model_copy(update={"size": 96, "recipe": {"epochs": 4}})
        >>> differences(main.data[0], main), differences(small, main)
        ([], ['size 96, in the paper 224', "recipe {'epochs': 4}, in the paper {}"])
    """
    known = [number for number in published() if number.table in spec.paper]
    if data.set not in {number.dataset for number in known}:
        return [f"set {data.set}, which these tables of the paper do not have"]
    backbones = sorted({number.backbone for number in known if number.dataset == data.set})
    backbone = data.backbone if data.backbone in backbones else backbones[0]
    task = DataSpec(set=data.set, protocol="paper", backbone=backbone)
    differs = [
        f"{name} {getattr(data, name)!r}, in the paper {getattr(task, name)!r}"
        for name in _TASK
        if getattr(data, name) != getattr(task, name)
    ]
    if spec.two_stage is not None and spec.two_stage != TwoStage():
        differs.append(f"two stages {spec.two_stage.model_dump()}, in the paper {TwoStage().model_dump()}")
    return differs


def _has_the_papers_settings(loss: str | dict[str, Any], data: DataSpec) -> bool:
    """Whether a loss of a spec is set as in the paper: by its name alone, ORCU's s as the data ask for."""
    options = {} if isinstance(loss, str) else {key: loss[key] for key in loss if key not in {"name", "label"}}
    if loss == "orcu" or (isinstance(loss, dict) and loss.get("name") == "orcu"):
        scale = options.pop("scale", ORCU_SCALE)
        if scale != (TEXT_SCALE if data.set == "sst5" else ORCU_SCALE):
            return False
    return options.keys() <= {"anchor", "regularizer", "distance"}  # which the labels of the ablation name


def _pairs(spec: Spec, data: DataSpec, table: list[Line]) -> Iterator[tuple[Published, Line, Cell]]:
    """Numbers of the paper and our cells for them."""
    for number in published():
        if number.table not in spec.paper or (number.dataset, number.backbone) != (data.set, data.backbone):
            continue
        loss = PAPER_LOSSES.get(number.loss, number.loss)  # the ablation's rows are called as in the paper
        metric, calibrator = PAPER_METRICS.get(number.metric, ""), PAPER_POSTHOC.get(number.posthoc)
        for line in table:
            if (line.data, line.loss, line.calibrator) == (data.title, loss, calibrator) and metric in line.cells:
                yield number, line, line.cells[metric]


def _scaled(metric: str, value: float) -> float:
    """A value of ours as the paper prints it."""
    return value if PAPER_METRICS[metric] == "alignment" else 100 * value


@dataclass(frozen=True)
class PaperTable:
    """A table in the paper's form: metrics below each other, losses side by side.

    Attributes:
        title: which table of the paper it is.
        headings: data, calibrator and metric, then the losses.
        rows: their cells.
    """

    title: str
    headings: list[str]
    rows: list[list[str | text.Cell]]

    def text(self, form: str = "markdown") -> str:
        """The table as markdown, latex, csv or html.

        Raises:
            UnknownNameError: if the format is none of them.
        """
        if form not in FORMATS:
            raise UnknownNameError("format", form, FORMATS)
        if form == "csv":
            plain = [[cell.text if isinstance(cell, text.Cell) else cell for cell in row] for row in self.rows]
            return text.csv(self.headings, plain)
        if form == "html":
            return text.html(self.headings, self.rows)
        names = sum(heading in {"data", "calibrator", "metric", "whose"} for heading in self.headings)
        align = "l" * names + "r" * (len(self.headings) - names)
        write = text.latex if form == "latex" else text.markdown
        return write(self.headings, self.rows, align)


def in_paper_layout(spec: Spec, table: list[Line], *, with_paper: bool = False) -> list[PaperTable]:
    """A benchmark's table in the paper's form, one for each table of the paper that it answers.

    Values are times 100 with two digits, mean ± standard deviation, the best bold and the second underlined.

    Args:
        spec: the benchmark; one that answers no table of the paper gives one table of its own columns.
        table: its lines.
        with_paper: the paper's numbers below ours, for the same data set and backbone; whether the task is the same
            `compare` says.
    """
    known = [number for number in published() if number.table in spec.paper]
    tables = []
    for name in spec.paper or [""]:
        wanted = [PAPER_METRICS[metric] for metric in dict.fromkeys(n.metric for n in known if n.table == name)]
        metrics = [metric for metric in wanted or spec.columns if metric in spec.columns]
        losses = list(dict.fromkeys(line.loss for line in table))
        several = len(spec.calibrators) > 1
        headings = ["data", *(["calibrator"] if several else []), "metric", *(["whose"] if with_paper else []), *losses]
        rows: list[list[str | text.Cell]] = []
        for data in spec.data:
            for calibrator in spec.calibrator_names:
                block = {line.loss: line for line in table if (line.data, line.calibrator) == (data.title, calibrator)}
                for metric in metrics if block else []:
                    start = [data.title, *([calibrator] if several else []), _row_name(metric)]
                    cells = [_cell(block.get(loss), metric) for loss in losses]
                    rows.append([*start, *(["ours"] if with_paper else []), *cells])
                    theirs = _of_paper(known, name, data, calibrator, metric)
                    if with_paper and theirs:
                        rows.append([*start, "paper", *(theirs.get(loss, "-") for loss in losses)])
        tables.append(PaperTable(PAPER_TABLES.get(name, spec.title or spec.name), headings, rows))
    return tables


def _row_name(metric: str) -> str:
    """A metric as it is printed: in percent, or times 100 as the paper has it, and the way that is better."""
    name = heading(metric)
    return name if column(metric).percent or metric == "alignment" else f"100 {name}"


def _cell(line: Line | None, metric: str) -> str | text.Cell:
    if line is None or metric not in line.cells:
        return "-"
    cell = line.cells[metric]
    factor = 1 if metric == "alignment" else 100
    spread = "" if cell.std is None else f" ± {factor * cell.std:.2f}"
    emphasis = {1: "best", 2: "second"}.get(cell.rank, "")
    mark = (f" {cell.versus}" if cell.versus else "") + (f" {DAGGER}" if line.collapsed else "")
    return text.Cell(f"{factor * cell.mean:.2f}{spread}{mark}", emphasis)  # type: ignore[arg-type]


def _of_paper(known: list[Published], table: str, data: DataSpec, calibrator: str, metric: str) -> dict[str, str]:
    """The paper's cells of a row, by our names of the losses; a contradiction is marked."""
    cells = {}
    for number in known:
        if (
            (number.table, number.dataset, number.backbone) == (table, data.set, data.backbone)
            and PAPER_POSTHOC.get(number.posthoc) == calibrator
            and PAPER_METRICS.get(number.metric) == metric
        ):
            spread = "" if number.std is None else f" ± {number.std:.2f}"
            mark = " †" if number.conflict else ""
            cells[PAPER_LOSSES.get(number.loss, number.loss)] = f"{number.mean:.2f}{spread}{mark}"
    return cells
