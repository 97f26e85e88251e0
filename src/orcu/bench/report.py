"""HTML report of a benchmark: summary, tables, reliability diagrams, and a comparison with the paper."""

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import orcu
from orcu.bench.columns import heading
from orcu.bench.jobs import State
from orcu.bench.paper import compare_lines
from orcu.bench.plan import Benchmark, Plan, status
from orcu.bench.significance import METHOD
from orcu.bench.spec import CONFIGS, DataSpec, LossSpec, Spec, loss_name
from orcu.bench.summary import SUMMARY_METRICS, summarise
from orcu.bench.tables import COLLAPSED_NOTE, Table, table
from orcu.figures.bands import Band
from orcu.figures.panels import reliability, two_stage
from orcu.figures.sources import TWO_STAGE
from orcu.figures.svg import render
from orcu.io.reading import read_table
from orcu.predictions import Predictions
from orcu.report.page import render_page
from orcu.report.pdf import write_page

REPORT = "report.html"


def report(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    extra: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] | None = None,
) -> Path:
    """Write the report of a benchmark and return its path.

    Args:
        spec: a spec or plan, as for `orcu.bench.status`; likewise ``results``, ``extra`` and
            ``overrides``.
        results: folder of all results.
        extra: name of one of the spec's lists of extra losses.
        overrides: values that replace those of every data set.
        output: .html or .pdf file; report.html in the benchmark's results folder by default.

    Raises:
        InputError: if the spec is not valid, or no run is finished.
    """
    plan = status(spec, results=results, extra=extra, overrides=overrides)
    path = Path(output or plan.folder / REPORT)
    html = page(table(plan))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_page(html, path)
    return path


def page(results: Table) -> str:
    """The report as one self-contained HTML text; the same results give the same bytes."""
    plan, spec = results.plan, results.plan.spec
    name = spec.name if (CONFIGS / f"{spec.name}.toml").exists() else f"{spec.name}.toml"
    name += spec.set_options
    provenance = {
        "spec": spec.name,
        "runs": f"{len(plan.runs)}",
        "losses": ", ".join(map(_describe_loss, spec.losses)) or ", ".join(spec.row_names),
        "calibrators": ", ".join(spec.calibrator_names),
        "seeds": ", ".join(map(str, sorted({run.job.seed for run in plan.runs}))),
        "threads per run": str(spec.threads),
        **({"set in all runs": spec.set_options.strip()} if spec.overrides else {}),
        "orcu": orcu.__version__,
        "command": f"orcu bench run {name} && orcu bench report {name}",
    }
    blocks = [_data_block(data, results) for data in spec.data]
    return render_page(
        "bench.html.j2",
        title=spec.title or spec.name,
        name=spec.name,
        finished=plan.states[State.FINISHED],
        total=len(plan.runs),
        failed=plan.states[State.FAILED],
        seeds=max(len(data.seeds or spec.seeds) for data in spec.data),
        several=len(spec.calibrators) > 1,
        headings=[heading(column) for column in spec.columns],
        blocks=[block for block in blocks if block["rows"]],
        comparison=compare_lines(spec, results.lines) if spec.paper else None,
        provenance=provenance,
        evaluated_rows=_evaluated_rows(spec),
        summary=summarise(results),
        summary_headings=[heading(column) for column in SUMMARY_METRICS],
        significance=METHOD,
        collapsed=COLLAPSED_NOTE if any(line.collapsed for line in results.lines) else "",
        selected=results.selected,
    )


def _describe_loss(loss: LossSpec) -> str:
    """Name of a loss in tables, with its options."""
    name = loss_name(loss)
    parts = (
        {} if isinstance(loss, str) else {key: value for key, value in loss.items() if key not in {"label", "source"}}
    )
    registered = parts.pop("name", name) if name != json.dumps(loss, sort_keys=True) else ""
    options = [registered if registered != name else "", *(f"{key} = {value}" for key, value in parts.items())]
    return f"{name} ({', '.join(filter(None, options))})" if any(options) else name


def _evaluated_rows(spec: Spec) -> str:
    """A sentence that says which rows are evaluated."""
    if spec.two_stage:
        return (
            "All numbers are computed after the last epoch, on validation rows that were ordered after stage one (F)."
        )
    if spec.split == "validation":
        return "The tables are computed on validation rows, without calibrators."
    return "Calibrators are fitted on validation rows; all numbers are computed on test rows."


def _data_block(data: DataSpec, results: Table) -> dict[str, Any]:
    """Content of the section about one data set."""
    plan, spec = results.plan, results.plan.spec
    rows: list[dict[str, Any]] = []
    for line in results.lines:
        if line.data == data.title:
            cells = [{"text": line.text(name), "rank": line.rank(name)} for name in spec.columns]
            start = bool(rows) and line.calibrator != rows[-1]["calibrator"]
            rows.append({"loss": line.title, "calibrator": line.calibrator, "cells": cells, "start": start})
    folds = {run.job.fold for run in plan.runs if run.job.data == data}
    network = f"hidden layers {data.hidden_layer_sizes}"
    if data.backbone:
        network = data.backbone + (", frozen" if data.frozen else "")
    if spec.two_stage:
        network += f"; {spec.two_stage.epochs[0]} + {spec.two_stage.epochs[1]} epochs"
    training = ", ".join(f"{key} {value}" for key, value in data.training.items())
    about = f"{data.set}, protocol {data.protocol}, {len(folds)} folds; {network}"
    return {
        "title": data.title,
        "stages": spec.two_stage is not None,
        "about": f"{about}; {training}" if training else about,
        "rows": rows,
        "figures": _two_stage_figures(data, plan) if spec.two_stage else _reliability_figures(data, plan),
    }


def _reliability_figures(data: DataSpec, plan: Plan) -> list[dict[str, str]]:
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
        predictions = Predictions(
            probs=np.concatenate([part.probs for part in parts]),
            y=np.concatenate([part.labels_or_votes for part in parts]),
        )
        diagram, ece = reliability.of_predictions(predictions)
        title = f"{data.title}, {loss}: reliability, ECE {100 * ece:.1f} %"
        draw = partial(_draw_bars, diagram=diagram, ece=ece)
        svg = render(draw, prefix=f"{data.title}-{len(figures)}", title=title, width=3.0, height=2.7)
        figures.append({"name": loss, "svg": svg, "note": f"{len(predictions):,} rows"})
    return figures


def _two_stage_figures(data: DataSpec, plan: Plan) -> list[dict[str, str]]:
    """The panels of the two-stage diagnostic, from its finished runs."""
    curves = [
        {**row, "fold": run.job.fold}
        for run in plan.finished
        if run.job.data == data
        for row in read_table(plan.file(run, TWO_STAGE)).to_pylist()
    ]
    figures = []
    for column, (title, _) in two_stage.PANELS.items() if curves else ():
        draw = partial(_draw_branches, branches=two_stage.data(curves, column))
        svg = render(draw, prefix=f"{data.title}-{column}", title=f"{data.title}: {title}", width=3.0, height=2.4)
        figures.append({"name": title, "svg": svg, "note": "mean over folds"})
    return figures


def _draw_branches(ax: Any, branches: dict[str, Band]) -> None:
    two_stage.draw(ax, branches)
    ax.set_xlabel("epoch of stage two")
    ax.legend(loc="best")


def _draw_bars(ax: Any, diagram: reliability.Reliability, ece: float) -> None:
    reliability.draw_bars(ax, diagram, ece=ece, box="none")
    ax.set(xlabel="confidence", ylabel="accuracy")
