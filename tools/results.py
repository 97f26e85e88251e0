"""The results in the documentation, from the runs to the tables.

    python tools/results.py collect --results DIR [--names results_scale,headline]
                                                     runs of specs, and tables of benchmarks, to docs/results/*.parquet
    python tools/results.py write                    those to docs/results/*.md and the marked parts of README and docs

The Parquet files hold a row for each run and calibrator, with the spec, the versions and what is missing in
their metadata; they are kept in the repository, the runs are not. What a store does not have stays as it was kept, so
runs may be done on several machines.

▲ and ▼ mark what is better and worse than a reference by a paired 95 % interval: over folds the corrected t of Nadeau
and Bengio (2003), over seeds and data sets the plain t, of rows that one model each has judged the bootstrap.
"""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import archive
import pyarrow.csv
from archive import FOLDER
from scipy.stats import binomtest

from orcu import bench
from orcu.bench.columns import column, heading
from orcu.bench.jobs import Job
from orcu.bench.significance import BETTER, WORSE
from orcu.bench.spec import CONFIGS, Spec, load_spec
from orcu.bench.tables import COLLAPSED_NOTE, DAGGER, Line, lines, rendered
from orcu.io import text
from orcu.io.files import atomic_write

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (
    DOCS / "results.md",
    DOCS / "estimator.md",
    DOCS / "boosting.md",
    DOCS / "comparison.md",
    DOCS / "guides" / "judges.md",
    DOCS.parent / "README.md",
)
SPECS = ("results_tables", "results_images", "results_retina", "results_text")
EXPERIMENTS = (  # of the paper, each with a page of its own; docs/claims.md reads them
    "results_posthoc",
    "results_two_stage",
    "results_ablation",
    "results_scale",
    "results_sensitivity",
    "results_converged",
    "results_finetuned",
    "results_heads",
)
STUDIES = {  # tables that benchmarks write, and what writes them
    **{f"defaults/{name}": "benchmarks/defaults.py" for name in ("headline", "defaults", "tuned", "single")},
    "judges": "benchmarks/judges.py",
    "rater_shapes": "benchmarks/rater_study.py",
    "rater_distances": "benchmarks/rater_study.py",
}
CROSS_ENTROPY = "ce"
REFERENCES = {  # what the rows of a spec's table are compared with, where it is not cross-entropy
    "results_two_stage": "sord",
    "results_ablation": "SoftCE(Squared)+LBE",
    "results_scale": "s = 3",
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


class Kept(NamedTuple):
    """A spec, how many runs are kept of it, and the rows of its table."""

    spec: Spec
    runs: int
    lines: list[Line]


def collect(results: Path, names: Sequence[str]) -> None:
    """The finished runs of every spec, as one small table each; what was kept and is not in the store stays.

    Tables of benchmarks are taken as they are.
    """
    for study, script in STUDIES.items():
        name, file = Path(study).name, results / f"{study}.csv"
        if name in names and file.exists():
            lines_ = pyarrow.csv.read_csv(file).to_pylist()
            archive.keep(name, lines_, command=f"python {script}")
            print(f"{name}: {len(lines_)} rows")
    for name in (name for name in names if name in SPECS + EXPERIMENTS):
        plan = bench.status(name, results=results)
        if not plan.finished:
            print(f"{name}: no run is finished")
            continue
        by_cell = {_cell_of(row): row for row in [*archive.rows(name), *plan.records()]}  # the store's own win
        missing = [run.job.title for run in plan.runs if not any(_is_of(run.job, row) for row in by_cell.values())]
        archive.keep(
            name,
            [row for _, row in sorted(by_cell.items())],
            spec=(CONFIGS / f"{name}.toml").read_text(encoding="utf-8"),
            conventions="the paper's: 15 bins (a, b], classes weighted alike; fractions, not percent",
            missing=missing,
        )
        print(f"{name}: {len(plan.finished)} of {len(plan.runs)} runs in the store, {len(missing)} missing")


def _is_of(job: Job, row: dict[str, Any]) -> bool:
    """Whether a row tells of this job; the rows of a two-stage run bear the names of its branches."""
    same = (row["data"], row["fold"], row["seed"]) == (job.data.title, job.fold, job.seed)
    return same and (job.two_stage is not None or row["loss"] == job.loss_name)


def _cell_of(row: dict[str, Any]) -> tuple[str, str, str, int, int]:
    return row["data"], row["loss"], row["calibrator"], row["fold"], row["seed"]


def tables_of(names: Sequence[str]) -> list[Kept]:
    """What is in the repository: specs and the rows of their tables."""
    specs = []
    for name in names:
        records = archive.rows(name)
        if records:
            spec = load_spec(name)
            marks = archive.Folds(records).marks(spec.columns, REFERENCES.get(name, CROSS_ENTROPY)) | _finetuned(name)
            specs.append(Kept(spec, len({record["run"] for record in records}), lines(spec, records, marks)))
    return specs


def _finetuned(name: str) -> dict[tuple[str, str, str, str], str]:
    """The marks of runs that were done once, from their test rows."""
    pairs = archive.rows("finetuned_pairs") if name == "results_finetuned" else []
    return {
        (row["data"], row["first"], "none", row["metric"]): archive.mark(
            archive.Difference(row["data"], row["value"], row["low"], row["high"]).sign, row["metric"]
        )
        for row in pairs
        if row.get("second") == CROSS_ENTROPY
    }


def pages() -> dict[Path, str]:
    """Every table: pages of their own, and the pages for reading with what stands between their marks."""
    specs, texts = tables_of(SPECS), {}
    for one in [*specs, *tables_of(EXPERIMENTS)]:
        parts = [f"# {one.spec.title}", "", _caption(one), ""]
        for data in one.spec.data:
            mine = [line for line in one.lines if line.data == data.title]
            if mine:
                parts += [f"## {data.title}", "", rendered(one.spec, mine, "markdown")]
        texts[FOLDER / f"{one.spec.name}.md"] = "\n".join(parts).rstrip() + "\n"
    blocks = {metric: by_loss(specs, metric) for metric in METRICS}
    blocks |= {f"{metric} after": by_calibrator(specs, metric) for metric in ("sce", "rps", "unimodality")}
    blocks |= {"headline": headline(specs), "people": people(), "raw judges": raw_judges()}
    blocks |= {f"defaults {metric}": defaults(_joined(), metric, SHOWN) for metric in ("rps", "accuracy")}
    blocks |= {f"tuned {metric}": defaults(_compared("tuned"), metric, TUNED) for metric in ("rps", "nll")}
    blocks |= {"verdict": verdict(), "tuned verdict": tuned_verdict(), "judges": judges()}
    blocks |= peers() | {"rater shapes": rater_shapes(), "rater distances": rater_distances()}
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        for name, block in blocks.items():
            pattern = re.compile(f"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
            content = pattern.sub(lambda m, block=block: f"{m[1]}\n{block}\n{m[2]}", content)
        texts[page] = content
    return texts


# The columns of the tables of defaults, as `benchmarks/defaults.py` calls them: what people do today beside ours, and
# tuned boosters beside ours.
OURS = {"orcu, default": "`OrdinalClassifier()`", "orcu, OrdinalBoosting": "`OrdinalBoosting()`"}
SHOWN = OURS | {
    "LightGBM, tuned + temperature": "LightGBM, tuned + temperature",
    "HistGradientBoosting + isotonic": "HistGradient-Boosting + isotonic",
    "one network, CE + temperature": "one network, CE + temperature",
    "skorch, CE + temperature": "skorch, CE + temperature",
    "mord": "mord",
}
TUNED = OURS | {
    f"{library}, tuned + {calibrator}": f"{library} + {calibrator}"
    for library in ("LightGBM", "XGBoost", "CatBoost")
    for calibrator in ("temperature", "isotonic")
}
JUDGED = ("rps", "nll", "sce", "accuracy", "mae")
ByTask = dict[str, dict[str, dict[str, Any]]]


def _compared(name: str) -> ByTask:
    """The rows of a table of `benchmarks/defaults.py`, by task and method; none where it is not there."""
    by_task: ByTask = {}
    for row in archive.rows(name):
        by_task.setdefault(row["task"], {})[row["method"]] = row
    return by_task


def _beyond_chance(row: dict[str, Any], metric: str, side: str = "better") -> bool:
    """Whether a method is better (or worse) than the default in a metric."""
    return metric in row.get(side, "").split()


def _joined() -> ByTask:
    """What people do, with single networks and tuned boosters where they were judged on as many rows."""
    by_task = _compared("defaults")
    for name in ("single", "tuned"):
        for task, rows in _compared(name).items():
            if task in by_task and rows["orcu, default"]["rows"] == by_task[task]["orcu, default"]["rows"]:
                by_task[task] = rows | by_task[task]
    return by_task


def defaults(by_task: ByTask, metric: str, shown: dict[str, str]) -> str:
    """The default beside others: a row for each task, the best bold, what is better beyond chance marked.

    Columns that no task has are left out.
    """
    shown = {name: title for name, title in shown.items() if any(name in rows for rows in by_task.values())}
    rows: list[list[str | text.Cell]] = []
    for task, by_method in by_task.items():
        values = {name: by_method[name][metric] for name in shown if name in by_method}
        cells: list[str | text.Cell] = [f"{task} ({by_method['orcu, default']['rows']:,})"]
        for name in shown:
            cell = _cell(values.get(name), list(values.values()), metric)
            cells.append(_marked(cell, by_method.get(name, {}), metric))
        rows.append(cells)
    headings: list[str | text.Cell] = ["", *(text.Cell(title, markup=True) for title in shown.values())]
    return text.markdown(headings, rows, "l" + "r" * len(shown))


def _marked(cell: text.Cell, row: dict[str, Any], metric: str) -> text.Cell:
    """A cell with what its method is beside the default."""
    side = BETTER if _beyond_chance(row, metric) else WORSE if _beyond_chance(row, metric, "worse") else ""
    return replace(cell, text=f"{cell.text} {side}") if side else cell


# What people do today beside ours, then the paper's loss alone.
PEOPLE = {
    "one network, CE + temperature": "cross-entropy + temperature",
    "LightGBM + temperature": "LightGBM + temperature",
    "orcu, default": "`OrdinalClassifier()`",
    "one network, ORCU": "the paper's ORCU, alone",
}


def people() -> str:
    """RPS of what people do today, of the default, and of the paper's loss alone; what differs beyond chance is marked.

    The last column is the interval of the better of people's two less the default, in percent of the former.
    """
    table: list[list[str | text.Cell]] = []
    for task, by_method in _compared("headline").items():
        values = {name: by_method[name]["rps"] for name in PEOPLE if name in by_method}
        cells: list[str | text.Cell] = [f"{task} ({by_method['orcu, default']['rows']:,})"]
        for name in PEOPLE:
            cell = _cell(values.get(name), list(values.values()), "rps")
            cells.append(_marked(cell, by_method.get(name, {}), "rps"))
        rival = min((name for name in list(PEOPLE)[:2] if name in by_method), key=values.__getitem__)
        low, high = (100 * by_method[rival][end] / values[rival] for end in ("rps low", "rps high"))
        cells.append(f"{low:+.1f} to {high:+.1f}")
        table.append(cells)
    heads: list[str | text.Cell] = ["", *(text.Cell(title, markup=True) for title in PEOPLE.values()), "gain, %"]
    return text.markdown(heads, table, "l" + "r" * (len(PEOPLE) + 1))


def verdict() -> str:
    """On how many tasks no one else is better than the default beyond chance, and who is where."""
    names = {"defaults": "other methods", "single": "single networks of ours, losses times calibrators"}
    return "\n\n".join(_unbeaten(_compared(name), called, JUDGED) for name, called in names.items()) + "\n"


def tuned_verdict() -> str:
    """The same of our two estimators on tables, against the tuned boosters."""
    by_task, metrics = _compared("tuned"), ("rps", "nll", "sce", "mae")
    default = _unbeaten(by_task, "tuned boosters beside `OrdinalClassifier()`", metrics)
    by_task = {task: rows for task, rows in by_task.items() if "orcu, OrdinalBoosting" in rows}
    trees = _unbeaten(by_task, "tuned boosters beside `OrdinalBoosting()`", metrics, "better than trees")
    return f"{default}\n\n{trees}\n"


def _unbeaten(by_task: ByTask, rivals: str, metrics: Sequence[str], column_: str = "better") -> str:
    """On how many tasks no rival is better beyond chance in each metric, and in all, and who is where."""
    better = {
        (task, metric): [
            name for name, row in rows.items() if name not in OURS and _beyond_chance(row, metric, column_)
        ]
        for task, rows in by_task.items()
        for metric in metrics
    }
    count = len({name for rows in by_task.values() for name in rows if name not in OURS})
    counts = ", ".join(f"{_word(metric)} {sum(not better[task, metric] for task in by_task)}" for metric in metrics)
    whole = sum(not any(better[task, metric] for metric in metrics) for task in by_task)
    who = "; ".join(f"{_word(metric)} on {task} ({_few(names)})" for (task, metric), names in better.items() if names)
    return (
        f"Of {count} {rivals}, none is better beyond chance on, of {len(by_task)} tasks: {counts}; in all of these at "
        f"once on {whole}." + (f" Better are: {who}." if who else "")
    )


def _few(names: list[str], most: int = 2) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _word(metric: str) -> str:
    return metric if metric == "accuracy" else metric.upper()


def by_loss(specs: list[Kept], metric: str) -> str:
    """Losses by data sets, before any calibrator; the best of each data set bold, marks beside cross-entropy."""
    by_cell = {(one.data, one.loss): one for spec in specs for one in spec.lines if one.calibrator == "none"}
    data, losses = (list(dict.fromkeys(names)) for names in zip(*by_cell, strict=True))
    rows = []
    for loss in losses:
        cells: list[str | text.Cell] = [_code(loss)]
        for one in data:
            line = by_cell.get((one, loss))
            rivals = [by_cell[one, other] for other in losses if (one, other) in by_cell]
            means = [rival.cells[metric].mean for rival in rivals if not rival.collapsed]
            if line is None:
                cells.append("-")
            elif line.collapsed:
                cells.append(f"{_cell(line.cells[metric].mean, means, metric).text} {DAGGER}")
            else:
                cell = _cell(line.cells[metric].mean, means, metric)
                cells.append(replace(cell, text=f"{cell.text} {line.cells[metric].versus}".rstrip()))
        rows.append(cells)
    return _markdown([_head(metric), *(SHORT.get(one, one) for one in data)], rows)


def by_calibrator(specs: list[Kept], metric: str) -> str:
    """Losses by calibrators, the mean over all data sets that have the loss; marks beside no calibrator."""
    names = specs[0].spec.calibrators
    by_cell = _by_loss_and_calibrator(specs, metric)
    most = max(map(len, by_cell.values()))
    table = []
    for loss in dict.fromkeys(loss for loss, _ in by_cell):
        if len(by_cell[loss, "none"]) == most:
            own = {name: list(by_cell[loss, name].values()) for name in names}
            table.append([_code(loss), *_beside(own, "none", metric).values()])
    return _markdown([_head(metric), *names], table)


def headline(specs: list[Kept]) -> str:
    """Some losses, before and after our calibrator: the mean over all data sets; marks beside cross-entropy."""
    table = []
    by_metric = {metric: _by_loss_and_calibrator(specs, metric) for metric in METRICS}
    for calibrator, name in (("none", "none"), ("gap+projection", "gap + projection")):
        columns = [
            _beside({loss: list(by_cell[loss, calibrator].values()) for loss in HEADLINE}, CROSS_ENTROPY, metric)
            for metric, by_cell in by_metric.items()
        ]
        for loss in HEADLINE:
            cells = [column_[loss] for column_ in columns]
            table.append([name if loss == HEADLINE[0] else "", _code(loss), *cells])
    return _markdown(["calibrator", "loss", *(_head(m) for m in METRICS)], table, left=2)


def _by_loss_and_calibrator(specs: list[Kept], metric: str) -> dict[tuple[str, str], dict[str, float]]:
    """A metric's means for each loss and calibrator, by data set."""
    by_cell: dict[tuple[str, str], dict[str, float]] = {}
    for line in (line for one in specs for line in one.lines):
        by_cell.setdefault((line.loss, line.calibrator), {})[line.data] = line.cells[metric].mean
    return by_cell


def _beside(by_name: dict[str, list[float]], reference: str, metric: str, overlap: float = 0.0) -> dict[str, text.Cell]:
    """The mean of each, the best bold, what differs from the reference beyond chance marked.

    Args:
        by_name: values of the same folds, draws or data sets, in the same order.
        reference: one of the names.
        metric: of the values.
        overlap: as for `archive.interval`.
    """
    means = [mean(values) for values in by_name.values()]
    cells = {}
    for (name, values), own in zip(by_name.items(), means, strict=True):
        apart = [value - other for value, other in zip(values, by_name[reference], strict=True)]
        side = archive.mark(archive.Difference(name, mean(apart), *archive.interval(apart, overlap)).sign, metric)
        cell = _cell(own, means, metric)
        cells[name] = replace(cell, text=f"{cell.text} {side}".rstrip())
    return cells


def judges() -> str:
    """Judges before and after, by each method with few, some and all human grades; the best bold, marks beside ours."""
    shown = ("accuracy", "mae", "qwk", "ece", "sce", "rps", "nll", "unimodality")
    table = []
    for judge, by_size in _by_judge().items():
        for size in ("50", "200", "all"):
            columns = [_judged(by_size[size], metric) for metric in shown]
            table += [[judge, size, method, *(column_[method] for column_ in columns)] for method in by_size[size]]
    return _markdown(["judge", "human grades", "method", *map(_head, shown)], table, left=3)


def raw_judges() -> str:
    """Language models as judges: RPS as they come, and calibrated to 200 grades of people; marks beside ours."""
    shown = {"as it comes": "as it comes", "temperature": "+ temperature", JUDGE: "`orcu judge fit`"}
    table = []
    for judge, by_size in _by_judge().items():
        cells = _judged({method: by_size["200"][method] for method in shown}, "rps")
        table.append([judge, *cells.values()])
    return text.markdown(["judge", *(text.Cell(title, markup=True) for title in shown.values())], table, "lrrr")


JUDGE = "orcu judge fit"
HALVES = 1.0  # rows that judge over rows that are drawn from, of a division of the judges' items
ByMethod = dict[str, list[dict[str, Any]]]


def _by_judge() -> dict[str, dict[str, ByMethod]]:
    """The rows of each judge, number of human grades and method, all in the same order of divisions and draws."""
    by_judge: dict[str, dict[str, ByMethod]] = {}
    for row in archive.rows("judges"):
        by_size = by_judge.setdefault(row["judge"], {}).setdefault(row["human grades"], {})
        by_size.setdefault(row["method"], []).append(row)
    return by_judge


def _judged(by_method: ByMethod, metric: str) -> dict[str, text.Cell]:
    """The mean of each method beside ours."""
    by_name = {method: [row[metric] for row in rows] for method, rows in by_method.items()}
    return _beside(by_name, JUDGE, metric, HALVES)


def rater_shapes() -> str:
    """How many human rating distributions are unimodal, with Wilson's intervals."""
    table = []
    for row in archive.rows("rater_shapes"):
        count = row["texts"]
        shares = [f"{100 * row['if unimodal']:.1f}"]
        for name in ("unimodal", "proven not"):
            ends = binomtest(round(count * row[name]), count).proportion_ci(method="wilson")
            shares.append(f"{100 * row[name]:.1f} ({100 * ends.low:.1f} to {100 * ends.high:.1f})")
        chance, unimodal, proven = shares
        table.append([row["data"].removeprefix("vader_"), f"{count:,}", str(row["raters"]), unimodal, chance, proven])
    heads = ["texts", "how many", "raters (median)", "unimodal %", "unimodal %, if all were", "proven not %"]
    return _markdown(heads, table)


def rater_distances() -> str:
    """Predicted against human distributions: losses by calibrators, the mean over data sets and folds.

    Marks are beside no calibrator, over folds: each fold's difference is the mean over the data sets.
    """
    by_cell: dict[tuple[str, str], dict[int | None, list[float]]] = {}
    for row in archive.rows("rater_distances"):
        by_fold = by_cell.setdefault((row["loss"], row["calibrator"]), {})
        by_fold.setdefault(row.get("fold"), []).append(row["distance"])
    by_pipeline = {cell: [mean(values) for values in by_fold.values()] for cell, by_fold in by_cell.items()}
    names = list(dict.fromkeys(calibrator for _, calibrator in by_pipeline if calibrator))
    table = []
    for loss in dict.fromkeys(loss for loss, calibrator in by_pipeline if calibrator):
        own = {name: by_pipeline[loss, name] for name in names}
        overlap = 1 / (len(own["none"]) - 1)  # test rows over training rows
        table.append([_code(loss), *_beside(own, "none", "rps", overlap).values()])
    floor = mean(by_pipeline["floor", ""])
    table.append(["the truth itself would show", f"{floor:.3f}", *[""] * (len(names) - 1)])
    return _markdown(["squared distance ↓", *names], table)


def peers() -> dict[str, str]:
    """What `benchmarks/peers.py` has found: who there is, whose numbers differ, what breaks, how fast all are."""
    run = json.loads((FOLDER / "peers.json").read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    left_out = f" Not installed were {', '.join(run['left out'])}." if run["left out"] else ""
    about = f"Run on {run['date']} with {versions} ({run['instructions']} instructions).{left_out}\n"
    offers = [
        [one["name"], one["version"], *(text.Cell(one[name], markup=True) for name in ("has", "has not"))]
        for one in run["peers"]
    ]
    blocks = {"peers": about, "peers offers": _markdown(["library", "version", "has", "has not"], offers, left=4)}
    for kind in ("differs", "breaks"):
        cases = []
        for one in (one for one in run["cases"] if one["kind"] == kind):
            who = f"{one['peer']} {one['version']}" if one["version"] else "copies on the web"
            words = (text.Cell(one[name], markup=True) for name in ("what", "why"))
            cases.append([who, *words, *(_number(one[name]) for name in ("expected", "theirs", "ours"))])
        blocks[f"peers {kind}"] = _markdown(["who", "what", "why", "expected", "theirs", "orcu"], cases, left=3)
    speed = []
    for one in run["speed"]:
        ratios = {who: f"{ratio:.3g}" for who, ratio in one["ratios"].items() if who != one["reference"]}
        own = [f"{ratio}{who.removeprefix('orcu')}" for who, ratio in ratios.items() if who.startswith("orcu")]
        others = [f"{who} {ratio}" for who, ratio in ratios.items() if not who.startswith("orcu")]
        speed.append([one["what"], one["size"], one["reference"], "; ".join(own), "; ".join(others)])
    blocks["peers speed"] = _markdown(["what", "size", "reference", "orcu", "others"], speed, left=5)
    return blocks


def _number(value: float | str) -> str:
    """A number as it is read: 1e+08 as 100,000,000, NaN as NaN."""
    if isinstance(value, str):
        return value.replace("nan", "NaN")
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def _caption(one: Kept) -> str:
    name = one.spec.name
    about = archive.about(name)
    versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items())
    missing = f" {len(about['missing'])} runs are still missing." if about["missing"] else ""
    collapsed = f" {COLLAPSED_NOTE}" if any(line.collapsed for line in one.lines) else ""
    return (
        f"{one.runs} runs of `orcu bench run {name}` ({versions}); mean ± standard deviation over folds and seeds, "
        f"best bold, second underlined within a calibrator; {BETTER} better, {WORSE} worse than "
        f"`{REFERENCES.get(name, CROSS_ENTROPY)}` with the same calibrator beyond chance (95 %).{collapsed}{missing} "
        f"Epochs and sizes stand in `configs/{name}.toml`."
    )


def _head(metric: str) -> str:
    return heading(metric).replace(metric, WORDS.get(metric, metric))


def _code(loss: str) -> text.Cell:
    return text.Cell(f"`{loss}`", markup=True) if loss.isidentifier() else text.Cell(loss)


def _cell(value: float | None, rivals: list[float], metric: str) -> text.Cell:
    """A value, bold if none of the rivals looks better."""
    if value is None:
        return text.Cell("-")
    shown = column(metric)
    number, best = (
        f"{100 * one:.1f}" if shown.percent else f"{one:.3f}" for one in (value, min(rivals, key=shown.cost))
    )
    return text.Cell(number, "best" if number == best else "")


def _markdown(headings: list[str], rows: list[list[str | text.Cell]], left: int = 1) -> str:
    return text.markdown(headings, rows, "l" * left + "r" * (len(headings) - left))


def main() -> None:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("collect", "write"))
    parser.add_argument("--results", type=Path, default=Path("results"), help="the folder of results")
    every = [*(Path(study).name for study in STUDIES), *SPECS, *EXPERIMENTS]
    parser.add_argument("--names", default=",".join(every), help="of specs and studies, with commas between")
    options = parser.parse_args()
    if options.step == "collect":
        collect(options.results, options.names.split(","))
        return
    for file, content in pages().items():
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            with atomic_write(file) as fresh:
                fresh.write_text(content, encoding="utf-8")
            print(f"wrote {file.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
