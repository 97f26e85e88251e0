"""One page for a whole benchmark: tables, reliability diagrams, the paper beside ours."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import orcu
from orcu.bench.columns import heading
from orcu.bench.paper import compared
from orcu.bench.plan import Benchmark, Plan, status
from orcu.bench.spec import CONFIGS, DataSpec, Spec, loss_name
from orcu.bench.states import State
from orcu.bench.story import JUDGED, opening
from orcu.bench.tables import COLLAPSED_NOTE, Table, table
from orcu.figures.bands import Band
from orcu.figures.panels import reliability, two_stage
from orcu.figures.sources import TWO_STAGE
from orcu.figures.svg import render
from orcu.io.reading import read_table
from orcu.predictions.predictions import Predictions
from orcu.report.build import page_template
from orcu.report.pdf import write_page

REPORT = "report.html"


def report(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    more: str | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Path:
    """Write one HTML page for a whole benchmark; where it stands.

    Args:
        spec: a TOML file, the name of a spec that comes with orcu, a spec, or a plan.
        results: the folder of all results; ``$ORCU_RESULTS``, or ``results`` by default.
        more: the name of further losses in the spec, such as grid of ablation.
        out: the file, .html or .pdf; report.html beside the results by default.

    Raises:
        InputError: if the spec cannot be used, or no run is finished.
    """
    plan = status(spec, results=results, more=more)
    target = Path(out or plan.folder / REPORT)
    html = page(table(plan))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_page(html, target)
    return target


def page(whole: Table) -> str:
    """The report as one self-contained HTML text; the same results give the same bytes."""
    plan, spec = whole.plan, whole.plan.spec
    called = spec.name if (CONFIGS / f"{spec.name}.toml").exists() else f"{spec.name}.toml"
    provenance = {
        "spec": spec.name,
        "runs": f"{len(plan.runs)}",
        "losses": ", ".join(map(_described, spec.losses)) or ", ".join(spec.row_names),
        "calibrators": ", ".join(spec.calibrator_names),
        "seeds": ", ".join(map(str, sorted({run.job.seed for run in plan.runs}))),
        "threads per run": str(spec.threads),
        "orcu": orcu.__version__,
        "made again by": f"orcu bench run {called} && orcu bench report {called}",
    }
    blocks = [_block(data, whole) for data in spec.data]
    return page_template("bench.html.j2").render(
        title=spec.title or spec.name,
        name=spec.name,
        finished=plan.states[State.FINISHED],
        total=len(plan.runs),
        failed=plan.states[State.FAILED],
        seeds=max(len(one.seeds or spec.seeds) for one in spec.data),
        several=len(spec.calibrators) > 1,
        headings=[heading(column) for column in spec.columns],
        blocks=[block for block in blocks if block["rows"]],
        compared=compared(spec, whole.lines) if spec.paper else None,
        provenance=provenance,
        which_rows=_which_rows(spec),
        opening=opening(whole),
        story_headings=[heading(column) for column in JUDGED],
        collapsed=COLLAPSED_NOTE if any(line.collapsed for line in whole.lines) else "",
        chosen=whole.chosen,
    )


def _described(loss: str | dict[str, Any]) -> str:
    """A loss as tables call it, with what it is made of."""
    name = loss_name(loss)
    parts = {} if isinstance(loss, str) else {key: value for key, value in loss.items() if key != "label"}
    own = parts.pop("name", name) if name != json.dumps(loss, sort_keys=True) else ""
    options = ", ".join([*([own] if own != name else []), *(f"{key} = {value}" for key, value in parts.items())])
    return f"{name} ({options})" if options else name


def _which_rows(spec: Spec) -> str:
    """Which rows the numbers are of."""
    if spec.two_stage:
        return "All numbers are of the set F after the last epoch: validation rows that were in order after stage one."
    if spec.rows == "validation":
        return "The numbers of the tables are of validation rows, before calibrators."
    return "Calibrators are fitted on validation rows; all numbers are of test rows."


def _block(data: DataSpec, whole: Table) -> dict[str, Any]:
    """The part of a page that shows one data set."""
    plan, spec = whole.plan, whole.plan.spec
    rows: list[dict[str, Any]] = []
    for line in whole.lines:
        if line.data == data.title:
            cells = [{"text": line.text(name), "rank": line.rank(name)} for name in spec.columns]
            start = bool(rows) and line.calibrator != rows[-1]["calibrator"]
            rows.append({"loss": line.called, "calibrator": line.calibrator, "cells": cells, "start": start})
    folds = {run.job.fold for run in plan.runs if run.job.data == data}
    network = data.backbone + (", frozen" if data.frozen else "") if data.backbone else f"layers of {data.hidden}"
    settings = ", ".join(f"{key} {value}" for key, value in data.recipe.items())
    network += f"; {spec.two_stage.epochs[0]} + {spec.two_stage.epochs[1]} epochs" if spec.two_stage else ""
    about = f"{data.set}, protocol {data.protocol}, {len(folds)} folds; {network}"
    about += f"; {settings}" if settings else ""
    return {
        "title": data.title,
        "stages": spec.two_stage is not None,
        "about": about,
        "rows": rows,
        "figures": _stages(data, plan) if spec.two_stage else _reliability(data, plan),
    }


def _reliability(data: DataSpec, plan: Plan) -> list[dict[str, str]]:
    """A reliability diagram for each loss, from the test rows of its finished runs."""
    figures: list[dict[str, str]] = []
    for loss in dict.fromkeys(run.job.loss_name for run in plan.runs):
        parts = [
            Predictions.read(plan.file(run, "test.parquet"))
            for run in plan.finished
            if run.job.data == data and run.job.loss_name == loss
        ]
        if not parts:
            continue
        together = Predictions(
            probs=np.concatenate([part.probs for part in parts]), y=np.concatenate([part.labels for part in parts])
        )
        bars, ece = reliability.of_predictions(together)
        svg = render(
            partial(_draw_bars, bars=bars, ece=ece),
            prefix=f"{data.title}-{len(figures)}",
            title=f"{data.title}, {loss}: reliability, ECE {100 * ece:.1f} %",
            width=3.0,
            height=2.7,
        )
        figures.append({"name": loss, "svg": svg, "note": f"{len(together):,} rows"})
    return figures


def _stages(data: DataSpec, plan: Plan) -> list[dict[str, str]]:
    """The panels of the two-stage diagnostic, from its finished runs."""
    curves = [
        {**row, "fold": run.job.fold}
        for run in plan.finished
        if run.job.data == data
        for row in read_table(plan.file(run, TWO_STAGE)).to_pylist()
    ]
    figures = []
    for column, (title, _) in two_stage.PANELS.items() if curves else ():
        svg = render(
            partial(_draw_branches, branches=two_stage.data(curves, column)),
            prefix=f"{data.title}-{column}",
            title=f"{data.title}: {title}",
            width=3.0,
            height=2.4,
        )
        figures.append({"name": title, "svg": svg, "note": "mean over folds"})
    return figures


def _draw_branches(ax: Any, branches: dict[str, Band]) -> None:
    two_stage.draw(ax, branches)
    ax.set_xlabel("epoch of stage two")
    ax.legend(loc="best")


def _draw_bars(ax: Any, bars: reliability.Reliability, ece: float) -> None:
    reliability.draw_bars(ax, bars, ece=ece, box="none")
    ax.set(xlabel="confidence", ylabel="accuracy")
