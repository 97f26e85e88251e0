"""Mean ranks of losses over the data sets of a benchmark, with the Friedman test and the critical difference."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from orcu.bench.plan import Benchmark, status
from orcu.bench.tables import FORMATS
from orcu.errors import InputError, UnknownNameError
from orcu.evaluation.ranks import RankTest, Result, rank_models
from orcu.figures.titles import data_title, loss_title
from orcu.metrics.base import METRICS
from orcu.report import text_tables


def ranks(
    spec: Benchmark,
    *,
    results: str | os.PathLike[str] | None = None,
    extra: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    metric: str = "sce",
    calibrator: str | None = None,
    losses: Sequence[str] = (),
    alpha: float = 0.05,
) -> RankTest:
    """Rank the losses on each data set of a benchmark, and test whether their mean ranks differ.

    Args:
        spec: a spec or plan, as for `orcu.bench.status`; likewise ``results``, ``extra`` and ``overrides``.
        results: folder of all results.
        extra: name of one of the spec's lists of extra losses.
        overrides: values that replace those of every data set.
        metric: metric that ranks the losses, as mean over folds.
        calibrator: name of a calibrator of the spec; the first one by default.
        losses: names of the losses; all of the spec by default.
        alpha: significance level.

    Raises:
        InputError: if a name is unknown, no run is finished, or fewer than three data sets have all losses; see
            `orcu.evaluation.ranks.rank_models`.
    """
    plan = status(spec, results=results, extra=extra, overrides=overrides)
    plan.require_finished()
    if plan.spec.two_stage:
        raise InputError(f"{plan.spec.name}: the two-stage diagnostic has no test metrics to rank.")
    METRICS.get(metric)
    calibrator = plan.spec.calibrator_names[0] if calibrator is None else calibrator
    if calibrator not in plan.spec.calibrator_names:
        raise UnknownNameError(f"calibrator of {plan.spec.name}", calibrator, plan.spec.calibrator_names)
    for loss in losses:
        if loss not in plan.spec.row_names:
            raise UnknownNameError(f"loss of {plan.spec.name}", loss, plan.spec.row_names)
    records = [record for record in plan.records() if record["calibrator"] == calibrator]
    position = {data.title: number for number, data in enumerate(plan.spec.data)}
    origin = {data.title: data.store for data in plan.spec.data}
    runs = [
        Result(record["data"], record["loss"], (record["fold"], record["seed"]), record, origin[record["data"]])
        for record in sorted(records, key=lambda record: position[record["data"]])
    ]
    return rank_models(runs, metric=metric, models=losses or plan.spec.row_names, alpha=alpha)


def group_letters(test: RankTest) -> list[str]:
    """Letters of the sets of undistinguished models, by model: two models with a common letter are not distinguished.

    Example:
        >>> from numpy import array
        >>> ranks = array([[1.0, 2.0, 3.0]])
        >>> test = RankTest("sce", ("a", "b", "c"), ("d",), ranks, 2, 2, 0.04, 1.5, 0.05, {}, [])
        >>> group_letters(test)
        ['a', 'ab', 'b']
    """
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return [
        "".join(alphabet[number % 26] for number, group in enumerate(test.groups) if model in group)
        for model in test.models
    ]


def rank_rows(test: RankTest) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the table of ranks: loss, mean rank, letters of its sets, and the rank on each data set."""
    rows = [
        [model, f"{mean:.3f}", letters, *(f"{rank:g}" for rank in test.ranks[:, j])]
        for j, (model, mean, letters) in enumerate(zip(test.models, test.mean_ranks, group_letters(test), strict=True))
    ]
    return ["loss", "mean rank", "group", *test.datasets], rows


def render_ranks(test: RankTest, form: str) -> str:
    """The table of ranks as markdown, latex, csv or html; in LaTeX with the paper's names and the test as a comment.

    Raises:
        UnknownNameError: if the format is unknown.
    """
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    headings, rows = rank_rows(test)
    if form == "csv":
        return text_tables.csv(headings, rows)
    align = "lrl" + "r" * len(test.datasets)
    if form == "latex":
        headings = [*(name.capitalize() for name in headings[:3]), *map(data_title, test.datasets)]
        rows = [[loss_title(row[0]), *row[1:]] for row in rows]
        notes = ["\\usepackage{booktabs}", *test.lines(), "group: losses with a common letter are not distinguished"]
        return "".join(text_tables.comment(note, form) for note in notes) + text_tables.latex(headings, rows, align)
    return text_tables.html(headings, rows) if form == "html" else text_tables.markdown(headings, rows, align)
