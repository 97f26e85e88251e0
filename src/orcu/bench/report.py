"""One page for a whole benchmark: tables, reliability diagrams, the paper beside ours."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import orcu
from orcu.bench.collect import FAILED, FINISHED, Planned, planned, records
from orcu.bench.columns import heading
from orcu.bench.spec import CONFIGS, DataSpec, Spec
from orcu.bench.store import Store
from orcu.bench.tables import Line, chosen, compared, lines
from orcu.figures import reliability, two_stage
from orcu.figures.bands import Band
from orcu.figures.sources import TWO_STAGE
from orcu.figures.svg import render
from orcu.predictions.predictions import Predictions
from orcu.report.build import page_template
from orcu.tables.reading import read_table


def page(spec: Spec, results: Path) -> str:
    """The report as one self-contained HTML text; the same results give the same bytes.

    Args:
        spec: of the benchmark.
        results: its folder of results.
    """
    plan = planned(spec, results)
    table = lines(spec, records(spec, results))
    states = [one.state for one in plan]
    blocks = [_block(data, spec, table, plan, results) for data in spec.data]
    called = spec.name if (CONFIGS / f"{spec.name}.toml").exists() else f"{spec.name}.toml"
    made = {
        "spec": spec.name,
        "runs": f"{len(plan)}",
        "losses": ", ".join(spec.row_names),
        "calibrators": ", ".join(spec.calibrators),
        "seeds": ", ".join(map(str, spec.seeds)),
        "threads per run": str(spec.threads),
        "orcu": orcu.__version__,
        "made again by": f"orcu bench run {called} && orcu bench report {called}",
    }
    return page_template("bench.html.j2").render(
        title=spec.title or spec.name,
        name=spec.name,
        finished=states.count(FINISHED),
        total=len(plan),
        failed=states.count(FAILED),
        seeds=len(spec.seeds),
        several=len(spec.calibrators) > 1,
        headings=[heading(column) for column in spec.columns],
        blocks=[block for block in blocks if block["rows"]],
        compared=compared(spec, table),
        made=made,
        told=_told(spec),
        chosen=chosen(spec, records(spec, results, rows="validation")),
    )


def _told(spec: Spec) -> str:
    """Which rows the numbers are of."""
    if spec.two_stage:
        return "All numbers are of the set F after the last epoch: validation rows that were in order after stage one."
    if spec.rows == "validation":
        return "The numbers of the tables are of validation rows, before calibrators."
    return "Calibrators are fitted on validation rows; all numbers are of test rows."


def _block(data: DataSpec, spec: Spec, table: list[Line], plan: list[Planned], results: Path) -> dict[str, Any]:
    mine = [line for line in table if line.data == data.title]
    rows, before = [], None
    for line in mine:
        cells = [
            {"text": line.text(name), "rank": line.cells[name].rank if name in line.cells else 0}
            for name in spec.columns
        ]
        start = before is not None and line.calibrator != before
        rows.append({"loss": line.loss, "calibrator": line.calibrator, "cells": cells, "start": start})
        before = line.calibrator
    folds = sorted({one.job.fold for one in plan if one.job.data == data})
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
        "figures": _figures(data, plan, results),
    }


def _figures(data: DataSpec, plan: list[Planned], results: Path) -> list[dict[str, str]]:
    """A reliability diagram for each loss, from the test rows of its finished runs."""
    if any(one.job.two_stage for one in plan):
        return _stages(data, plan, results)
    store = Store(results)
    found: list[dict[str, str]] = []
    for loss in dict.fromkeys(one.job.loss_name for one in plan):
        done = [
            one.run
            for one in plan
            if one.job.data == data and one.job.loss_name == loss and one.state == FINISHED and one.run
        ]
        if not done:
            continue
        told = [Predictions.read(store.runs / run / "test.parquet") for run in done]
        together = Predictions(
            probs=np.concatenate([one.probs for one in told]), y=np.concatenate([one.labels for one in told])
        )
        drawn, ece = reliability.of_predictions(together)
        svg = render(
            partial(_bars, found=drawn, ece=ece),
            prefix=f"{data.title}-{len(found)}",
            title=f"{data.title}, {loss}: reliability, ECE {100 * ece:.1f} %",
            width=3.0,
            height=2.7,
        )
        note = f"{len(together):,} rows"
        found.append({"name": loss, "svg": svg, "note": note})
    return found


def _stages(data: DataSpec, plan: list[Planned], results: Path) -> list[dict[str, str]]:
    """The panels of the two-stage diagnostic, from its finished runs."""
    told = [
        {**row, "fold": one.job.fold}
        for one in plan
        if one.job.data == data and one.state == FINISHED and one.run
        for row in read_table(Store(results).runs / one.run / TWO_STAGE).to_pylist()
    ]
    found = []
    for column, (title, _) in two_stage.PANELS.items() if told else ():
        svg = render(
            partial(_branches, found=two_stage.data(told, column)),
            prefix=f"{data.title}-{column}",
            title=f"{data.title}: {title}",
            width=3.0,
            height=2.4,
        )
        found.append({"name": title, "svg": svg, "note": "mean over folds"})
    return found


def _branches(ax: Any, found: dict[str, Band]) -> None:
    two_stage.draw(ax, found)
    ax.set_xlabel("epoch of stage two")
    ax.legend(loc="best")


def _bars(ax: Any, found: reliability.Reliability, ece: float) -> None:
    reliability.draw_bars(ax, found, ece=ece, box="none")
    ax.set(xlabel="confidence", ylabel="accuracy")
