"""Tables as the paper prints them: mean and deviation over folds, best bold, second underlined."""

import csv
import html
import io
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from orcu.bench.columns import column, heading
from orcu.bench.spec import Spec
from orcu.errors import UnknownNameError

FORMATS = ("markdown", "latex", "csv", "html")
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
PAPER_POSTHOC = {"none": "none", "TS": "temperature", "DC": "dirichlet"}

BETTER, WORSE = "▲", "▼"  # than the reference, beyond chance
NOTHING = "-"  # where a row has no such number


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
        factor, digits = (100, 2) if column(metric)[1] else (1, 4 if metric == "alignment" else 3)
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

    def text(self, metric: str) -> str:
        """What stands in a cell."""
        return self.cells[metric].text(metric) if metric in self.cells else NOTHING


def lines(
    spec: Spec, records: list[dict[str, Any]], versus: dict[tuple[str, str, str, str], str] | None = None
) -> list[Line]:
    """The rows of a spec's table, in the spec's order; losses without finished runs are left out.

    Args:
        spec: the benchmark.
        records: of `orcu.bench.collect.records`.
        versus: marks by data, loss, calibrator and metric, from `orcu.bench.significance.marks`.
    """
    marks = versus or {}
    found = []
    for data in spec.data:
        for calibrator in spec.calibrators:
            block = []
            for name in spec.row_names:
                mine = [r for r in records if (r["data"], r["loss"], r["calibrator"]) == (data.title, name, calibrator)]
                if mine:
                    cells = {
                        c: _cell(mine, c, marks.get((data.title, name, calibrator, c), ""))
                        for c in spec.columns
                        if c in mine[0]
                    }
                    block.append(Line(data.title, name, calibrator, cells))
            found += _ranked(block)
    return found


def rendered(spec: Spec, table: list[Line], form: str) -> str:
    """A table as text.

    Raises:
        UnknownNameError: if the format is none of them.
    """
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    several = len(spec.calibrators) > 1
    headings = ["data", "loss", *(["calibrator"] if several else []), *(heading(c) for c in spec.columns)]
    marks = {
        "markdown": ("**{}**", "<u>{}</u>", "{}"),
        "html": ("<b>{}</b>", "<u>{}</u>", "{}"),
        "latex": (r"\textbf{{{}}}", r"\underline{{{}}}", "{}"),
        "csv": ("{}", "{}", "{}"),
    }[form]
    rows = []
    for line in table:
        ranks = {c: cell.rank or 3 for c, cell in line.cells.items()}
        cells = [marks[ranks.get(c, 3) - 1].format(line.text(c)) for c in spec.columns]
        rows.append([line.data, line.loss, *([line.calibrator] if several else []), *cells])
    if form == "csv":
        return _csv(spec, table, several)
    if form == "latex":
        body = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in rows]
        first = " & ".join(_tex(cell) for cell in headings) + r" \\"
        places = "l" * (2 + several) + "r" * len(spec.columns)
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{places}}}",
                r"\toprule",
                first,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )
    if form == "html":
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in headings)
        told = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
        return f"<table>\n<tr>{head}</tr>\n{told}</table>\n"
    fixed = 2 + several
    top = "| " + " | ".join(headings) + " |\n|" + "---|" * fixed + "---:|" * len(spec.columns)
    return "\n".join([top, *("| " + " | ".join(row) + " |" for row in rows), ""])


def compared(spec: Spec, table: list[Line]) -> list[dict[str, Any]]:
    """Ours beside the paper's numbers, where it has one for the same data, loss and calibrator.

    The paper's are times 100, A_TF aside; ours are turned into the same.
    """
    backbones = {data.title: (data.set, data.backbone or "resnet50") for data in spec.data}
    found = []
    with PAPER.open(encoding="utf-8", newline="") as file:
        published = [row for row in csv.DictReader(file) if row["table"] in spec.paper]
    for row in published:
        loss = PAPER_LOSSES.get(row["loss"], row["loss"])  # the ablation's rows are called as in the paper
        metric = PAPER_METRICS.get(row["metric"])
        calibrator = PAPER_POSTHOC.get(row["posthoc"])
        for line in table:
            if (line.loss, line.calibrator) != (loss, calibrator) or metric not in line.cells:
                continue
            if backbones[line.data] != (row["dataset"], row["backbone"]):
                continue
            ours = (1 if metric == "alignment" else 100) * line.cells[metric].mean
            theirs = float(row["mean"])
            found.append(
                {
                    "table": row["table"],
                    "data": line.data,
                    "loss": line.loss,
                    "calibrator": line.calibrator,
                    "metric": metric,
                    "paper": theirs,
                    "ours": ours,
                    "difference": ours - theirs,
                    "folds": line.cells[metric].count,
                }
            )
    return found


def chosen(spec: Spec, validation: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """For each data set that selects: its name, the metric, and the loss that is best on validation rows.

    Args:
        spec: the benchmark.
        validation: its records with ``rows="validation"``.
    """
    found = []
    for data in spec.data:
        means: dict[str, float] = {}
        for name in spec.row_names:
            mine = [r for r in validation if (r["data"], r["loss"]) == (data.title, name)]
            if mine and data.select:
                means[name] = mean(float(record[data.select]) for record in mine)
        if means:
            best = max if column(data.select)[0] == "higher" else min
            found.append((data.title, data.select, best(means, key=lambda name: means[name])))
    return found


def _cell(records: list[dict[str, Any]], metric: str, versus: str) -> Cell:
    values = [float(record[metric]) for record in records]
    spread = stdev(values) if len(values) > 1 else None
    return Cell(mean(values), spread, len(values), versus=versus)


def _ranked(block: list[Line]) -> list[Line]:
    """The lines with each cell's place: one more than the losses that are strictly better."""
    found = []
    for line in block:
        cells = {}
        for name, cell in line.cells.items():
            sign = -1 if column(name)[0] == "higher" else 1
            others = [other.cells[name].mean for other in block if name in other.cells]
            better = sum(sign * value < sign * cell.mean for value in others)
            cells[name] = replace(cell, rank=better + 1 if better < 2 and len(others) > 2 else 0)
        found.append(Line(line.data, line.loss, line.calibrator, cells))
    return found


def _csv(spec: Spec, table: list[Line], several: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    marked = any(cell.versus for line in table for cell in line.cells.values())
    parts = ("", "_std", "_count", *(["_versus"] if marked else []))
    columns = [f"{c}{part}" for c in spec.columns for part in parts]
    writer.writerow(["data", "loss", *(["calibrator"] if several else []), *columns])
    for line in table:
        values: list[Any] = []
        for c in spec.columns:
            cell = line.cells.get(c)
            if cell is None:
                values += ["", "", 0]
            else:
                values += [repr(cell.mean), "" if cell.std is None else repr(cell.std), cell.count]
            if marked:
                values.append({BETTER: "better", WORSE: "worse"}.get(cell.versus if cell else "", ""))
        writer.writerow([line.data, line.loss, *([line.calibrator] if several else []), *values])
    return out.getvalue()


def _tex(text: str) -> str:
    for sign, written in (
        ("%", r"\%"),
        ("_", r"\_"),
        ("±", r"$\pm$"),
        ("↑", r"$\uparrow$"),
        ("↓", r"$\downarrow$"),
        (BETTER, r"$\blacktriangle$"),
        (WORSE, r"$\blacktriangledown$"),
    ):
        text = text.replace(sign, written)
    return text
