"""Result tables of the documentation.

    python tools/results.py collect --results DIR [--names results_scale,headline]
                                     collect benchmark runs and study tables into docs/results/*.parquet
    python tools/results.py write    write docs/results/*.md, the generated blocks of README and docs, and the pictures
                                     docs/_static/loss_ranks_*.png

The Parquet files have a row for each run and calibrator; their metadata have the spec, the versions and the missing
runs. They are part of the repository, the runs are not. Rows that a results folder does not have are kept, so runs can
be collected from several machines.

▲ and ▼ mark values that are significantly better and worse than the baseline (paired 95 % interval): the corrected t
interval of Nadeau and Bengio (2003) over folds, the t interval over seeds and data sets, the bootstrap over rows.
"""

import argparse
import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import archive
import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
from archive import FOLDER
from scipy.stats import binomtest

from orcu import bench
from orcu.bench.columns import column, heading
from orcu.bench.jobs import Job
from orcu.bench.paper import PAPER_LOSSES
from orcu.bench.plan import Plan
from orcu.bench.prepared import prepared_data
from orcu.bench.significance import BETTER, WORSE
from orcu.bench.spec import CONFIGS, Spec, load_spec
from orcu.bench.tables import COLLAPSED_NOTE, DAGGER, Line, lines, render_table
from orcu.evaluation.ranks import RankTest, Result, rank_models
from orcu.figures.panels import critical_difference
from orcu.figures.save import save
from orcu.figures.style import PAGE, print_settings
from orcu.inputs import FloatArray
from orcu.io.files import atomic_write
from orcu.report import text_tables

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (
    DOCS / "results.md",
    DOCS / "estimator.md",
    DOCS / "boosting.md",
    DOCS / "comparison.md",
    DOCS / "performance.md",
    DOCS / "loss_comparison.md",
    DOCS / "guides" / "llm_judges.md",
    DOCS.parent / "README.md",
)
SPECS = ("results_tables", "results_images", "results_retina", "results_text")
EXPERIMENTS = (  # experiments of the paper, each with its own page; input of docs/claims.md
    "results_two_stage",
    "results_ablation",
    "results_scale",
    "results_sensitivity",
    "results_converged",
    "results_converged_ablation",
    "results_finetuned",
    "results_heads",
    "results_losses",
)
STUDIES = {  # tables of benchmark scripts, and the scripts
    **{f"defaults/{name}": "benchmarks/defaults.py" for name in ("headline", "defaults", "tuned", "single")},
    "rivals/rivals": "benchmarks/rivals.py",
    "judges": "benchmarks/judges.py",
    "rater_shapes": "benchmarks/rater_study.py",
    "rater_distances": "benchmarks/rater_study.py",
}
CROSS_ENTROPY = "ce"
UNBROKEN = "\0"  # in place of a space, where a line must not be broken
COMPARISON = "results_losses"  # spec of the comparison of all losses and heads
BASELINES = {  # baselines of specs whose baseline is not cross-entropy
    "results_two_stage": "sord",
    "results_ablation": "SoftCE(Squared)+LBE",
    "results_scale": "s = 3",
    "results_converged_ablation": "SoftCE(Squared)+LBE",
}
METRICS = ("accuracy", "qwk", "ece", "sce", "rps", "unimodality")
SHORT = {
    "wine_quality": "wine",
    "diamonds_cut": "cut",
    "diamonds_clarity": "clarity",
    "aptos2019": "APTOS",
    "elpv": "ELPV",
    "lev": "LEV",
    "swd": "SWD",
    "era": "ERA",
    "retinamnist": "Retina",
    "SST-5, from scratch": "SST-5",
    "SST-5, frozen MiniLM": "SST-5 frozen",
}
WORDS = {"ece": "ECE", "sce": "SCE", "rps": "RPS", "qwk": "QWK", "unimodality": "unimodal", "mae": "MAE"}
HEADLINE = ("ce", "sord", "ls", "mdca", "orcu")
CALIBRATORS = ("none", "temperature", "dirichlet", "gap", "projection", "gap+projection")  # shown in the overview
COUNTED = (*METRICS, "nll")
PAIRS = (  # pairs of pipelines (a loss and a calibrator) of the interpretation
    ("`orcu` against `ce`", ("orcu", "none"), ("ce", "none")),
    ("`orcu` against `sord`", ("orcu", "none"), ("sord", "none")),
    ("`orcu` with automatic s against `orcu`", ("orcu, auto s", "none"), ("orcu", "none")),
    ("`orcu` with gap+projection against `orcu`", ("orcu", "gap+projection"), ("orcu", "none")),
    ("the same against `orcu` with temperature", ("orcu", "gap+projection"), ("orcu", "temperature")),
    ("`orcu` against `ce`, both with gap+projection", ("orcu", "gap+projection"), ("ce", "gap+projection")),
)


class SpecTable(NamedTuple):
    """A spec, the number of its archived runs, and the rows of its table."""

    spec: Spec
    runs: int
    lines: list[Line]


def collect(results: Path, names: Sequence[str]) -> None:
    """Collect the finished runs of specs and the tables of studies; archived rows without a new run are kept."""
    for study, script in STUDIES.items():
        name, file = Path(study).name, results / f"{study}.csv"
        if name in names and file.exists():
            rows = pyarrow.csv.read_csv(file).to_pylist()
            archive.save_rows(name, rows, command=f"python {script}")
            print(f"{name}: {len(rows)} rows")
    for name in (name for name in names if name in SPECS + EXPERIMENTS):
        plan = bench.status(name, results=results)
        current = {run.id for run in plan.runs}  # a changed spec leaves runs behind that no longer belong to it
        archived = [row for row in archive.load_rows(name) if row["run"] in current]
        if not plan.finished and not archived:
            print(f"{name}: no run is finished")
            continue
        by_cell = {_row_key(row): row for row in [*archived, *plan.records()]}  # new rows replace old ones
        sizes = split_sizes(plan)
        for row in by_cell.values():
            row |= sizes.get((row["data"], row["fold"]), {})
        missing = [run.job.title for run in plan.runs if not any(_belongs_to(run.job, row) for row in by_cell.values())]
        archive.save_rows(
            name,
            [row for _, row in sorted(by_cell.items())],
            spec=(CONFIGS / f"{name}.toml").read_text(encoding="utf-8"),
            conventions="the paper's: 15 bins (a, b], equal class weights; fractions, not percent",
            missing=missing,
        )
        print(f"{name}: {len(plan.finished)} of {len(plan.runs)} runs are finished, {len(missing)} missing")


def split_sizes(plan: Plan) -> dict[tuple[str, int], dict[str, int]]:
    """Number of training rows and of evaluated rows, by data set and fold."""
    evaluated = "validation" if plan.spec.two_stage else plan.spec.split
    sizes = {}
    for job in {(run.job.data.title, run.job.fold): run.job for run in plan.runs}.values():
        prepared = prepared_data(job)
        if prepared is not None:
            split = prepared.split(job.data.protocol, job.fold)
            counts = {"train_rows": len(split["train"]), "test_rows": len(split[evaluated])}
            sizes[job.data.title, job.fold] = counts
    return sizes


def _belongs_to(job: Job, row: dict[str, Any]) -> bool:
    """Whether a row belongs to a job; rows of a two-stage run have the names of its branches."""
    same = (row["data"], row["fold"], row["seed"]) == (job.data.title, job.fold, job.seed)
    return same and (job.two_stage is not None or row["loss"] == job.loss_name)


def _row_key(row: dict[str, Any]) -> tuple[str, str, str, int, int]:
    return row["data"], row["loss"], row["calibrator"], row["fold"], row["seed"]


def tables_of(names: Sequence[str]) -> list[SpecTable]:
    """Archived specs and the rows of their tables."""
    tables = []
    for name in names:
        records = archive.load_rows(name)
        if records:
            spec = load_spec(name)
            marks = archive.PairedRuns(records).marks(spec.columns, BASELINES.get(name, CROSS_ENTROPY))
            marks |= _finetuned_marks(name)
            tables.append(SpecTable(spec, len({record["run"] for record in records}), lines(spec, records, marks)))
    return tables


def _finetuned_marks(name: str) -> dict[tuple[str, str, str, str], str]:
    """Significance marks of the fine-tuned runs, which have one fold, from their test rows."""
    pairs = archive.load_rows("finetuned_pairs") if name == "results_finetuned" else []
    return {
        (row["data"], row["first"], "none", row["metric"]): archive.mark(
            archive.Difference.of_bootstrap(*(row[key] for key in ("data", "value", "low", "high"))).sign, row["metric"]
        )
        for row in pairs
        if row.get("second") == CROSS_ENTROPY
    }


def pages() -> dict[Path, str]:
    """Content of all generated pages, and of all pages with generated blocks."""
    specs, texts = tables_of(SPECS), {}
    for table in [*specs, *tables_of(EXPERIMENTS)]:
        parts = [f"# {table.spec.title}", "", _caption(table), ""]
        for data in table.spec.data:
            rows = [line for line in table.lines if line.data == data.title]
            if rows:
                parts += [f"## {data.title}", "", render_table(table.spec, rows, "markdown")]
        texts[FOLDER / f"{table.spec.name}.md"] = "\n".join(parts).rstrip() + "\n"
    blocks = {metric: by_loss(specs, metric) for metric in METRICS}
    blocks |= {f"{metric} after": by_calibrator(specs, metric) for metric in ("sce", "rps", "unimodality")}
    blocks |= {
        "counts": counts(),
        "counts of means": counts_of_means(),
        "headline": headline(specs),
        "gains": gains(),
        "training cost": training_cost(),
        "raw judges": judges_by_calibration(),
    }
    blocks |= {f"defaults {metric}": estimators(_joined(), metric, SHOWN) for metric in ("rps", "accuracy")}
    blocks |= {f"tuned {metric}": estimators(_by_task("tuned"), metric, TUNED) for metric in ("rps", "nll")}
    blocks |= {"rivals": rivals("all"), "rivals without twin": rivals("without twin"), "presets": presets()}
    blocks |= {"verdict": verdict(), "tuned verdict": tuned_verdict(), "judges": judges()}
    blocks |= {"loss ranks": loss_ranks(), "loss tests": loss_tests()}
    blocks |= peers() | {"rater shapes": rater_shapes(), "rater distances": rater_distances()}
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        for name, block in blocks.items():
            pattern = re.compile(f"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
            content = pattern.sub(lambda m, block=block: f"{m[1]}\n{block}\n{m[2]}", content)
        texts[page] = content
    return texts


def rank_test(calibrator: str, *, with_collapsed: bool = False) -> RankTest:
    """Ranks of the losses and heads by RPS; ``with_collapsed`` also on the data sets on which a loss has collapsed."""
    rows = [row for row in archive.load_rows(COMPARISON) if row["calibrator"] == calibrator]
    return rank_models(
        [
            Result(row["data"], row["loss"], (row["fold"], row["seed"]), {"rps": row["rps"]} if with_collapsed else row)
            for row in rows
        ],
        metric="rps",
    )


def loss_ranks() -> str:
    """Table of the losses and heads: mean ranks by RPS, and means over the data sets, without and with `auto`."""
    means: dict[tuple[str, str], dict[str, float]] = {}
    rows = archive.load_rows(COMPARISON)
    for name, calibrator in {(row["loss"], row["calibrator"]) for row in rows}:
        by_data: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if (row["loss"], row["calibrator"]) == (name, calibrator):
                by_data.setdefault(row["data"], []).append(row)
        means[name, calibrator] = {
            metric: mean(mean(row[metric] for row in part) for part in by_data.values())
            for metric in ("rps", "sce", "unimodality")
        }
    ranks = {}
    for calibrator in ("none", "auto"):
        test = rank_test(calibrator)
        ranks[calibrator] = dict(zip(test.models, test.mean_ranks.tolist(), strict=True))
    cells: list[list[str | text_tables.Cell]] = []
    for name, rank in ranks["auto"].items():
        plain, calibrated = means[name, "none"], means[name, "auto"]
        parts = [f"{plain['rps']:.3f}", f"{100 * plain['sce']:.1f}", f"{100 * plain['unimodality']:.0f}"]
        cells.append([name, f"{ranks['none'][name]:.1f}", *parts, f"{rank:.1f}", f"{calibrated['rps']:.3f}"])
    headings = ["loss, head", "rank", "RPS", "SCE, %", "unimodal, %", "rank with auto", "RPS with auto"]
    return _markdown(headings, cells)


def loss_tests() -> str:
    """The critical differences, the losses that differ significantly from cross-entropy, and dropped data sets."""
    lines = []
    for calibrator, name in (("none", "Without a calibrator"), ("auto", "With `auto`")):
        test = rank_test(calibrator)
        n = len(test.datasets)
        lines.append(
            f"- **{name}**: Friedman test on {n} data sets, p {'≤' if test.p_value <= 0.0001 else '='} "
            f"{test.p_value:.4f}; the critical difference of mean ranks is {test.critical_difference:.1f} (Nemenyi, "
            f"5 %). {_against(test, CROSS_ENTROPY, 'cross-entropy')} {_against(test, test.models[0])}"
        )
        for data, reason in test.dropped.items():
            all_data = rank_test(calibrator, with_collapsed=True)
            others = "the same" if _worse(all_data, CROSS_ENTROPY) == _worse(test, CROSS_ENTROPY) else "other"
            lines[-1] += (
                f" The data set `{data}` is left out by the rule of `orcu bench ranks`: {reason}. With it, {others} "
                "losses are significantly worse than cross-entropy."
            )
    filled = (textwrap.fill(line, 150, subsequent_indent="  ", break_on_hyphens=False) for line in lines)
    return "\n".join(filled).replace(UNBROKEN, " ") + "\n"


def _worse(test: RankTest, name: str, sign: int = 1) -> set[str]:
    """The losses whose mean rank is higher than that of a loss by the critical difference; lower with ``sign=-1``."""
    ranks = dict(zip(test.models, test.mean_ranks.tolist(), strict=True))
    return {other for other, rank in ranks.items() if sign * (rank - ranks[name]) >= test.critical_difference}


def _against(test: RankTest, name: str, title: str = "") -> str:
    """A sentence on the losses that are significantly better and worse than one of them."""
    better, worse = ([_unbroken(other) for other in test.models if other in _worse(test, name, k)] for k in (-1, 1))
    title = title or f"{_unbroken(name)}, which has the lowest rank,"
    sentences = [f"Significantly worse than {title} are {', '.join(worse)}."]
    if better:
        sentences.insert(0, f"Significantly better than {title} are {', '.join(better)}.")
    elif name != test.models[0]:
        sentences.insert(0, f"No loss is significantly better than {title}.")
    return " ".join(sentences)


def _unbroken(name: str) -> str:
    """A name as code, at whose spaces `textwrap.fill` does not break a line."""
    return f"`{name.replace(' ', UNBROKEN)}`"


def draw_loss_ranks() -> None:
    """Draw the critical-difference diagrams of the losses and heads."""
    import matplotlib

    for calibrator, caption in (("none", ""), ("auto", ", calibrated by auto")):
        file = DOCS / "_static" / f"loss_ranks_{calibrator}.png"
        with matplotlib.rc_context(print_settings(PAGE)):
            save(critical_difference.figure(rank_test(calibrator), calibrator=caption), file, dpi=150)
        print(f"wrote {file.relative_to(DOCS.parent)}")


# Columns of the tables of estimators, by their names in `benchmarks/defaults.py`: orcu and common practice, and orcu
# and tuned boosters.
ORCU = {"orcu, default": "`OrdinalClassifier()`", "orcu, OrdinalBoosting": "`OrdinalBoosting()`"}
SHOWN = ORCU | {
    "LightGBM, tuned + temperature": "LightGBM, tuned + temperature",
    "HistGradientBoosting + isotonic": "HistGradient-Boosting + isotonic",
    "one network, CE + temperature": "one network, CE + temperature",
    "skorch, CE + temperature": "skorch, CE + temperature",
    "mord": "mord",
}
TUNED = ORCU | {
    f"{library}, tuned + {calibrator}": f"{library} + {calibrator}"
    for library in ("LightGBM", "XGBoost", "CatBoost")
    for calibrator in ("temperature", "isotonic")
}
EVALUATED = ("rps", "nll", "sce", "accuracy", "mae")
ByTask = dict[str, dict[str, dict[str, Any]]]


def _by_task(name: str) -> ByTask:
    """Rows of a table of `benchmarks/defaults.py` by task and method; empty if there is no such table."""
    by_task: ByTask = {}
    for row in archive.load_rows(name):
        by_task.setdefault(row["task"], {})[row["method"]] = row
    return by_task


def _is_significant(row: dict[str, Any], metric: str, side: str = "better") -> bool:
    """Whether a method is significantly better (or worse) than the default in a metric."""
    return metric in row.get(side, "").split()


def _joined() -> ByTask:
    """Rows of `defaults`, with single networks and tuned boosters that were evaluated on the same number of rows."""
    by_task = _by_task("defaults")
    for name in ("single", "tuned"):
        for task, rows in _by_task(name).items():
            if task in by_task and rows["orcu, default"]["rows"] == by_task[task]["orcu, default"]["rows"]:
                by_task[task] = rows | by_task[task]
    return by_task


def estimators(by_task: ByTask, metric: str, shown: dict[str, str]) -> str:
    """Estimators by task: the best is bold, significant differences from the default are marked.

    Columns without values are left out.
    """
    shown = {name: title for name, title in shown.items() if any(name in rows for rows in by_task.values())}
    rows: list[list[str | text_tables.Cell]] = []
    for task, by_method in by_task.items():
        values = {name: by_method[name][metric] for name in shown if name in by_method}
        cells: list[str | text_tables.Cell] = [f"{task} ({by_method['orcu, default']['rows']:,})"]
        for name in shown:
            cell = _cell(values.get(name), list(values.values()), metric)
            cells.append(_marked(cell, by_method.get(name, {}), metric))
        rows.append(cells)
    headings: list[str | text_tables.Cell] = ["", *(text_tables.Cell(title, markup=True) for title in shown.values())]
    return text_tables.markdown(headings, rows, "l" + "r" * len(shown))


def _marked(cell: text_tables.Cell, row: dict[str, Any], metric: str) -> text_tables.Cell:
    """A cell with the significance mark of its method against the default."""
    side = BETTER if _is_significant(row, metric) else WORSE if _is_significant(row, metric, "worse") else ""
    return replace(cell, text=f"{cell.text} {side}") if side else cell


# The strongest rivals of `benchmarks/rivals.py` on all five folds of the tables.
DEFAULT = "orcu, default"
COMPARED = {
    DEFAULT: "`OrdinalClassifier()`",
    "AutoGluon, 120 s": "AutoGluon, 120 s",
    "ExtraTrees": "ExtraTrees",
    "RandomForest": "Random-Forest",
    "LightGBM, tuned + temperature": "LightGBM, tuned + temperature",
    "xRFM": "xRFM",
    "proportional odds": "proportional odds",
}
FULL_FOLDS = 5
RESAMPLES = 1000
GAINS = {
    "AutoGluon, 120 s": "AutoGluon, 120 s",
    "xRFM": "xRFM (6 tables)",
    "LightGBM, tuned + temperature": "LightGBM, tuned + temperature (9 tables)",
    "RandomForest": "random forest",
    "ExtraTrees": "ExtraTrees",
    "proportional odds": "proportional odds",
}


def _rivals(subset: str) -> ByTask:
    """Rows of the contest on all five folds, by task and method; other methods keep their folds."""
    by_task: ByTask = {}
    for row in archive.load_rows("rivals"):
        if row["subset"] == subset and row["folds"] == FULL_FOLDS:
            by_task.setdefault(row["task"], {})[row["method"]] = row
    return by_task


def _contest(subset: str, shown: dict[str, str]) -> str:
    """RPS of the default and its rivals with marks."""
    table: list[list[str | text_tables.Cell]] = []
    for task, by_method in _rivals(subset).items():
        values = {name: by_method[name]["rps"] for name in shown if name in by_method}
        cells: list[str | text_tables.Cell] = [f"{task} ({by_method[DEFAULT]['rows']:,})"]
        for name in shown:
            cell = _cell(values.get(name), list(values.values()), "rps")
            side = {"better": BETTER, "worse": WORSE}.get(by_method.get(name, {}).get("rps verdict", ""), "")
            cells.append(replace(cell, text=f"{cell.text} {side}") if side else cell)
        table.append(cells)
    heads: list[str | text_tables.Cell] = ["", *(text_tables.Cell(title, markup=True) for title in shown.values())]
    return text_tables.markdown(heads, table, "l" + "r" * (len(heads) - 1))


def gains() -> str:
    """Reduction of the RPS by the default against each rival: mean over the tables, with a bootstrap of their rows."""
    table = pq.read_table(FOLDER / "rival_rows.parquet")
    task, scale = table["task"].to_numpy(), table["scale"].to_numpy()
    measured = _rivals("all")

    def scores(method: str) -> FloatArray:
        return np.square(table[f"rps:{method}"].to_numpy(zero_copy_only=False) / scale)

    default, rng, lines = scores(DEFAULT), np.random.default_rng(0), []
    for name, title in GAINS.items():
        rival, logs, draws = scores(name), [], []
        for rows in (np.flatnonzero(task == title_) for title_ in measured if name in measured[title_]):
            picked = rows[rng.integers(len(rows), size=(RESAMPLES, len(rows)))] if len(rows) else rows
            logs.append(np.log(default[rows].mean() / rival[rows].mean()))
            draws.append(np.log(default[picked].mean(axis=1) / rival[picked].mean(axis=1)))
        reduction = 100 * (1 - np.exp(np.append(np.mean(draws, axis=0), np.mean(logs))))
        low, high = np.quantile(reduction[:-1], (0.025, 0.975))
        rows_of = [by_method for by_method in measured.values() if name in by_method]
        verdicts = [by_method[name]["rps verdict"] for by_method in rows_of]
        cost = np.exp(np.mean([np.log(r[name]["cpu_seconds"] / r[DEFAULT]["cpu_seconds"]) for r in rows_of]))
        lines.append(
            [
                title,
                f"{reduction[-1]:.0f} % ({low:.0f} to {high:.0f})",
                f"{100 * (1 - np.exp(np.median(logs))):.0f} %",
                " / ".join(str(verdicts.count(word)) for word in ("worse", "tie", "better")),
                f"{100 * mean(r[name]['unimodal'] for r in rows_of):.0f} %",
                f"{cost:.2g} x",
            ]
        )
    heads = [
        "compared with",
        "mean RPS reduction",
        "median",
        "tables better / level / worse",
        "its unimodal rows",
        "its CPU time",
    ]
    return text_tables.markdown(heads, lines, "lrrrrr")


def training_cost() -> str:
    """CPU time of fit and predict by size and method, with the ratio to LightGBM."""
    table: list[list[str | text_tables.Cell]] = [
        [
            f"{row['rows']:,} x {row['columns']}",
            row["method"],
            *(f"{row[f'{name}_cpu_s']:.2f} ({row[f'{name}_ratio']:.1f})" for name in ("fit", "predict")),
            f"{row['peak_gb']:.1f}",
            f"{row['rps']:.4f}",
        ]
        for row in archive.load_rows("training_cost")
    ]
    heads = ["rows x columns", "method", "fit, s (ratio)", "predict, s (ratio)", "peak GB", "RPS"]
    return text_tables.markdown(heads, table, "llrrrr")


def rivals(subset: str) -> str:
    """RPS of orcu's default and of all rivals that ran on five folds, and the number of significant differences."""
    by_task, lines = _rivals(subset), []
    for score in ("rps", "nll"):
        verdicts = {
            (task, name): row.get(f"{score} verdict", "")
            for task, rows in by_task.items()
            for name, row in rows.items()
            if name in COMPARED and name != DEFAULT
        }
        better = [f"{name} on {task}" for (task, name), verdict_ in verdicts.items() if verdict_ == "better"]
        counts = [list(verdicts.values()).count(verdict_) for verdict_ in ("better", "tie", "worse")]
        lines.append(
            f"{score.upper()}, {len(verdicts)} comparisons: the other method is better in {counts[0]}, level in "
            f"{counts[1]} and worse in {counts[2]}" + (f" (better: {'; '.join(better)})." if better else ".")
        )
    return _contest(subset, COMPARED) + "\n" + " ".join(lines) + "\n"


def presets() -> str:
    """RPS and CPU seconds of two presets on five folds; of "best" the difference from the default on their folds."""
    by_task: ByTask = {}
    for row in archive.load_rows("rivals"):
        if row["subset"] == "all":
            by_task.setdefault(row["task"], {})[row["method"]] = row
    table: list[list[str | text_tables.Cell]] = []
    for task, rows in by_task.items():
        cells: list[str | text_tables.Cell] = [task]
        cells += [
            f"{rows[name]['rps']:.3f} ({rows[name]['cpu_seconds']:.0f} s)" if name in rows else "-"
            for name in ("orcu, fast", DEFAULT)
        ]
        best = rows.get("orcu, best")
        cells.append("-" if best is None else f"{best['rps difference']:+.4f} ({best['cpu_seconds']:.0f} s)")
        table.append(cells)
    return text_tables.markdown(["", "fast", "default", "best minus default, first fold"], table, "lrrr")


def verdict() -> str:
    """Number of tasks without a significantly better method than the default, and the exceptions."""
    names = {"defaults": "other methods", "single": "single networks (a loss and a calibrator)"}
    return "\n\n".join(_count_unbeaten(_by_task(name), title, EVALUATED) for name, title in names.items()) + "\n"


def tuned_verdict() -> str:
    """The same for orcu's two estimators on tables, compared with tuned boosters."""
    by_task, metrics = _by_task("tuned"), ("rps", "nll", "sce", "mae")
    default = _count_unbeaten(by_task, "tuned boosters against `OrdinalClassifier()`", metrics)
    by_task = {task: rows for task, rows in by_task.items() if "orcu, OrdinalBoosting" in rows}
    trees = _count_unbeaten(by_task, "tuned boosters against `OrdinalBoosting()`", metrics, "better than trees")
    return f"{default}\n\n{trees}\n"


def _count_unbeaten(by_task: ByTask, others: str, metrics: Sequence[str], column_: str = "better") -> str:
    """Number of tasks without a significantly better method in each metric and in all, and the exceptions."""
    better = {
        (task, metric): [
            name for name, row in rows.items() if name not in ORCU and _is_significant(row, metric, column_)
        ]
        for task, rows in by_task.items()
        for metric in metrics
    }
    count = len({name for rows in by_task.values() for name in rows if name not in ORCU})
    counts = ", ".join(f"{_word(metric)} on {sum(not better[task, metric] for task in by_task)}" for metric in metrics)
    in_all = sum(not any(better[task, metric] for metric in metrics) for task in by_task)
    exceptions = "; ".join(
        f"{_word(metric)} on {task} ({_shorten(names)})" for (task, metric), names in better.items() if names
    )
    return (
        f"{count} {others}: none is significantly better in {counts} of {len(by_task)} tasks, and in any of these "
        f"metrics on {in_all}." + (f" Significantly better: {exceptions}." if exceptions else "")
    )


def _shorten(names: list[str], most: int = 2) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _word(metric: str) -> str:
    return metric if metric == "accuracy" else metric.upper()


def by_loss(specs: list[SpecTable], metric: str) -> str:
    """Losses by data sets without a calibrator; the best of each data set is bold, marks against cross-entropy."""
    by_cell = {(line.data, line.loss): line for spec in specs for line in spec.lines if line.calibrator == "none"}
    data, losses = (list(dict.fromkeys(names)) for names in zip(*by_cell, strict=True))
    rows = []
    for loss in losses:
        cells: list[str | text_tables.Cell] = [_code(loss)]
        for name in data:
            line = by_cell.get((name, loss))
            others = [by_cell[name, other] for other in losses if (name, other) in by_cell]
            means = [other.cells[metric].mean for other in others if not other.collapsed]
            if line is None:
                cells.append("-")
            elif line.collapsed:
                cells.append(f"{_cell(line.cells[metric].mean, means, metric).text} {DAGGER}")
            else:
                cell = _cell(line.cells[metric].mean, means, metric)
                cells.append(replace(cell, text=f"{cell.text} {line.cells[metric].mark}".rstrip()))
        rows.append(cells)
    return _markdown([_head(metric), *(SHORT.get(name, name) for name in data)], rows)


def by_calibrator(specs: list[SpecTable], metric: str) -> str:
    """Losses by calibrators, mean over the data sets that all losses have; marks against no calibrator."""
    by_cell = _by_loss_and_calibrator(specs, metric)
    losses = [loss for loss in PAPER_LOSSES.values() if (loss, "none") in by_cell]
    shared = sorted(set.intersection(*(set(by_cell[loss, "none"]) for loss in losses)))
    table = []
    for loss in losses:
        values = {name: [by_cell[loss, name][data] for data in shared] for name in CALIBRATORS}
        table.append([_code(loss), *_compare(values, "none", metric).values()])
    return _markdown([_head(metric), *CALIBRATORS], table)


def counts() -> str:
    """Numbers of data sets on which the first pipeline of a pair is significantly better, level and worse."""
    runs = archive.PairedRuns([row for name in SPECS for row in archive.load_rows(name)])
    table = []
    for title, first, second in PAIRS:
        cells: list[str | text_tables.Cell] = [text_tables.Cell(title, markup=True)]
        for metric in COUNTED:
            marks = [archive.mark(difference.sign, metric) for difference in runs.differences(metric, first, second)]
            cells.append(" / ".join(str(marks.count(mark)) for mark in (BETTER, "", WORSE)))
        table.append(cells)
    return _markdown(["", *(_head(metric) for metric in COUNTED)], table)


def counts_of_means() -> str:
    """Numbers of data sets on which the first pipeline of a pair has the better mean."""
    runs = archive.PairedRuns([row for name in SPECS for row in archive.load_rows(name)])
    table = []
    for title, first, second in PAIRS:
        cells: list[str | text_tables.Cell] = [text_tables.Cell(title, markup=True)]
        for metric in COUNTED:
            values = [found.value for found in runs.differences(metric, first, second)]
            better = sum(archive.mark((value > 0) - (value < 0), metric) == BETTER for value in values)
            cells.append(f"{better} of {len(values)}")
        table.append(cells)
    return _markdown(["", *(_head(metric) for metric in COUNTED)], table)


def headline(specs: list[SpecTable]) -> str:
    """Some losses with and without the calibrator, mean over all data sets; marks against cross-entropy."""
    table = []
    by_metric = {metric: _by_loss_and_calibrator(specs, metric) for metric in METRICS}
    for calibrator, name in (("none", "none"), ("gap+projection", "gap + projection")):
        columns = [
            _compare({loss: list(by_cell[loss, calibrator].values()) for loss in HEADLINE}, CROSS_ENTROPY, metric)
            for metric, by_cell in by_metric.items()
        ]
        for loss in HEADLINE:
            cells = [column_[loss] for column_ in columns]
            table.append([name if loss == HEADLINE[0] else "", _code(loss), *cells])
    return _markdown(["calibrator", "loss", *(_head(m) for m in METRICS)], table, left=2)


def _by_loss_and_calibrator(specs: list[SpecTable], metric: str) -> dict[tuple[str, str], dict[str, float]]:
    """Mean of a metric for each loss and calibrator, by data set."""
    by_cell: dict[tuple[str, str], dict[str, float]] = {}
    for line in (line for table in specs for line in table.lines):
        by_cell.setdefault((line.loss, line.calibrator), {})[line.data] = line.cells[metric].mean
    return by_cell


def _compare(
    by_name: dict[str, list[float]], baseline: str, metric: str, overlap: float = 0.0
) -> dict[str, text_tables.Cell]:
    """Means by name: the best is bold, significant differences from the baseline are marked.

    Args:
        by_name: values on the same folds, draws or data sets, in the same order.
        baseline: one of the names.
        metric: metric of the values.
        overlap: argument of `archive.interval`.
    """
    means = [mean(values) for values in by_name.values()]
    cells = {}
    for (name, values), average in zip(by_name.items(), means, strict=True):
        differences = [value - other for value, other in zip(values, by_name[baseline], strict=True)]
        sign = archive.Difference.of_values(name, differences, overlap).sign
        cell = _cell(average, means, metric)
        cells[name] = replace(cell, text=f"{cell.text} {archive.mark(sign, metric)}".rstrip())
    return cells


def judges() -> str:
    """LLM judges by calibration method and number of human grades; the best is bold, marks against `orcu judge fit`."""
    shown = ("accuracy", "mae", "qwk", "ece", "sce", "rps", "nll", "unimodality")
    table = []
    for judge, by_size in _by_judge().items():
        for size in ("50", "200", "all"):
            columns = [_compare_methods(by_size[size], metric) for metric in shown]
            table += [[judge, size, method, *(column_[method] for column_ in columns)] for method in by_size[size]]
    return _markdown(["judge", "human grades", "method", *map(_head, shown)], table, left=3)


def judges_by_calibration() -> str:
    """RPS of LLM judges, uncalibrated and calibrated with 200 human grades; marks against `orcu judge fit`."""
    shown = {"uncalibrated": "uncalibrated", "temperature": "+ temperature", JUDGE: "`orcu judge fit`"}
    table = []
    for judge, by_size in _by_judge().items():
        cells = _compare_methods({method: by_size["200"][method] for method in shown}, "rps")
        table.append([judge, *cells.values()])
    return text_tables.markdown(
        ["judge", *(text_tables.Cell(title, markup=True) for title in shown.values())], table, "lrrr"
    )


JUDGE = "orcu judge fit"
HALVES = 1.0  # ratio of evaluation rows to calibration rows of the judges' items
ByMethod = dict[str, list[dict[str, Any]]]


def _by_judge() -> dict[str, dict[str, ByMethod]]:
    """Rows of each judge, number of human grades and method, all in the same order of splits and draws."""
    by_judge: dict[str, dict[str, ByMethod]] = {}
    for row in archive.load_rows("judges"):
        by_size = by_judge.setdefault(row["judge"], {}).setdefault(row["human grades"], {})
        by_size.setdefault(row["method"], []).append(row)
    return by_judge


def _compare_methods(by_method: ByMethod, metric: str) -> dict[str, text_tables.Cell]:
    """Means of the methods with marks against `orcu judge fit`."""
    by_name = {method: [row[metric] for row in rows] for method, rows in by_method.items()}
    return _compare(by_name, JUDGE, metric, HALVES)


def rater_shapes() -> str:
    """Shares of unimodal human rating distributions with Wilson intervals."""
    table = []
    for row in archive.load_rows("rater_shapes"):
        count = row["texts"]
        shares = [f"{100 * row['expected_if_unimodal']:.1f}"]
        for name in ("unimodal", "significantly_multimodal"):
            ends = binomtest(round(count * row[name]), count).proportion_ci(method="wilson")
            shares.append(f"{100 * row[name]:.1f} ({100 * ends.low:.1f} to {100 * ends.high:.1f})")
        expected, unimodal, multimodal = shares
        data = row["data"].removeprefix("vader_")
        table.append([data, f"{count:,}", str(row["raters"]), unimodal, expected, multimodal])
    heads = [
        "data",
        "texts",
        "raters (median)",
        "unimodal %",
        "expected % if all texts were unimodal",
        "significantly multimodal %",
    ]
    return _markdown(heads, table)


def rater_distances() -> str:
    """Distance between predicted and human distributions: losses by calibrators, mean over data sets and folds.

    Marks are against the same loss without a calibrator, over folds; each fold's difference is the mean over data sets.
    """
    by_cell: dict[tuple[str, str], dict[int | None, list[float]]] = {}
    for row in archive.load_rows("rater_distances"):
        by_fold = by_cell.setdefault((row["loss"], row["calibrator"]), {})
        by_fold.setdefault(row.get("fold"), []).append(row["distance"])
    by_pipeline = {cell: [mean(values) for values in by_fold.values()] for cell, by_fold in by_cell.items()}
    names = list(dict.fromkeys(calibrator for _, calibrator in by_pipeline if calibrator))
    table = []
    for loss in dict.fromkeys(loss for loss, calibrator in by_pipeline if calibrator):
        values = {name: by_pipeline[loss, name] for name in names}
        overlap = 1 / (len(values["none"]) - 1)  # ratio of test rows to training rows
        table.append([_code(loss), *_compare(values, "none", "rps", overlap).values()])
    floor = mean(by_pipeline["floor", ""])
    table.append(["true distribution (sampling noise of the ratings)", f"{floor:.3f}", *[""] * (len(names) - 1)])
    return _markdown(["squared distance ↓", *names], table)


def peers() -> dict[str, str]:
    """Results of `benchmarks/peers.py`: libraries, different definitions, errors, and speed."""
    run = json.loads((FOLDER / "peers.json").read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    skipped = f" Not installed: {', '.join(run['not_installed'])}." if run["not_installed"] else ""
    about = f"Run on {run['date']} with {versions} ({run['instructions']} instructions).{skipped}\n"
    offers = [
        [row["name"], row["version"], *(text_tables.Cell(row[key], markup=True) for key in ("features", "missing"))]
        for row in run["peers"]
    ]
    blocks = {"peers": about, "peers offers": _markdown(["library", "version", "features", "missing"], offers, left=4)}
    for kind in ("differs", "breaks"):
        cases = []
        for row in (row for row in run["cases"] if row["kind"] == kind):
            library = f"{row['peer']} {row['version']}" if row["version"] else "copies on the web"
            texts = (text_tables.Cell(row[key], markup=True) for key in ("what", "why"))
            cases.append([library, *texts, *(_number(row[key]) for key in ("expected", "peer_value", "orcu_value"))])
        headings = ["library", "quantity", "reason", "expected", "library's value", "orcu"]
        blocks[f"peers {kind}"] = _markdown(headings, cases, left=3)
    speed = []
    for row in run["speed"]:
        ratios = {name: f"{ratio:.3g}" for name, ratio in row["ratios"].items() if name != row["reference"]}
        orcu = [f"{ratio}{name.removeprefix('orcu')}" for name, ratio in ratios.items() if name.startswith("orcu")]
        others = [f"{name} {ratio}" for name, ratio in ratios.items() if not name.startswith("orcu")]
        speed.append([row["what"], row["size"], row["reference"], "; ".join(orcu), "; ".join(others)])
    blocks["peers speed"] = _markdown(["task", "size", "reference", "orcu", "others"], speed, left=5)
    return blocks


def _number(value: float | str) -> str:
    """A number as text: 1e+08 as 100,000,000, NaN as NaN."""
    if isinstance(value, str):
        return value.replace("nan", "NaN")
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _caption(table: SpecTable) -> str:
    name = table.spec.name
    metadata = archive.load_metadata(name)
    versions = ", ".join(f"{package} {number}" for package, number in metadata["versions"].items())
    missing = f" {len(metadata['missing'])} runs are missing." if metadata["missing"] else ""
    collapsed = f" {COLLAPSED_NOTE}" if any(line.collapsed for line in table.lines) else ""
    return (
        f"{table.runs} runs of `orcu bench run {name}` ({versions}). Mean ± standard deviation over folds and seeds. "
        f"Within each calibrator the best is bold and the second best underlined. {BETTER} significantly better, "
        f"{WORSE} significantly worse than `{BASELINES.get(name, CROSS_ENTROPY)}` with the same calibrator (paired "
        f"95 % interval).{collapsed}{missing} The settings are in `configs/{name}.toml`."
    )


def _head(metric: str) -> str:
    return heading(metric).replace(metric, WORDS.get(metric, metric))


def _code(loss: str) -> text_tables.Cell:
    return text_tables.Cell(f"`{loss}`", markup=True) if loss.isidentifier() else text_tables.Cell(loss)


def _cell(value: float | None, values: list[float], metric: str) -> text_tables.Cell:
    """A value as text, bold if it is the best of the values after rounding."""
    if value is None:
        return text_tables.Cell("-")
    kind = column(metric)
    number, best = (
        f"{100 * number:.1f}" if kind.percent else f"{number:.3f}" for number in (value, min(values, key=kind.cost))
    )
    return text_tables.Cell(number, "best" if number == best else "")


def _markdown(headings: list[str], rows: list[list[str | text_tables.Cell]], left: int = 1) -> str:
    return text_tables.markdown(headings, rows, "l" * left + "r" * (len(headings) - left))


def main() -> None:
    """Run the step of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("collect", "write"))
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder")
    names = [*(Path(study).name for study in STUDIES), *SPECS, *EXPERIMENTS]
    parser.add_argument("--names", default=",".join(names), help="comma-separated names of specs and studies")
    options = parser.parse_args()
    if options.step == "collect":
        collect(options.results, options.names.split(","))
        return
    for file, content in pages().items():
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            with atomic_write(file) as temporary:
                temporary.write_text(content, encoding="utf-8")
            print(f"wrote {file.relative_to(DOCS.parent)}")
    draw_loss_ranks()


if __name__ == "__main__":
    main()
