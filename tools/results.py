"""The results in the documentation, from the runs to the tables.

    python tools/results.py collect --results DIR [--specs results_scale,results_posthoc]
                                                     finished runs of the specs to docs/results/*.parquet
    python tools/results.py write                    those to docs/results/*.md and the marked parts of README and docs

The Parquet files hold a row for each run and calibrator, with the spec, the versions and what is missing in
their metadata; they are kept in the repository, the runs are not. What a store does not have stays as it was kept, so
runs may be done on several machines.
"""

import argparse
import csv
import json
import platform
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from orcu import bench
from orcu.bench.columns import column, heading
from orcu.bench.jobs import Job
from orcu.bench.spec import CONFIGS, Spec, load_spec
from orcu.bench.tables import COLLAPSED_NOTE, DAGGER, Line, lines, rendered
from orcu.tables import text
from orcu.tables.files import replacing

DOCS = Path(__file__).parents[1] / "docs"
KEPT = DOCS / "results"
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
    """The finished runs of every spec, as one small table each; what was kept and is not in the store stays."""
    KEPT.mkdir(exist_ok=True)
    for name in names:
        plan = bench.status(name, results=results)
        if not plan.finished:
            print(f"{name}: no run is finished")
            continue
        file = KEPT / f"{name}.parquet"
        by_cell = {_cell_of(row): row for row in [*_records(file), *plan.records()]}  # the store's own win
        about = {
            "spec": (CONFIGS / f"{name}.toml").read_text(encoding="utf-8"),
            "versions": {
                "python": platform.python_version(),
                **{one: version(one) for one in ("orcu", "torch", "numpy", "scikit-learn")},
            },
            "conventions": "the paper's: 15 bins (a, b], classes weighted alike; fractions, not percent",
            "missing": [
                run.job.title for run in plan.runs if not any(_is_of(run.job, row) for row in by_cell.values())
            ],
        }
        rows = [row for _, row in sorted(by_cell.items())]
        table = pa.Table.from_pylist(rows).replace_schema_metadata({"orcu": json.dumps(about)})
        with replacing(file) as fresh:
            pq.write_table(table, fresh, compression="zstd")
        print(f"{name}: {len(plan.finished)} of {len(plan.runs)} runs in the store, {len(about['missing'])} missing")


def _records(file: Path) -> list[dict[str, Any]]:
    rows = pq.read_table(file).to_pylist() if file.exists() else []
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _is_of(job: Job, row: dict[str, Any]) -> bool:
    """Whether a row tells of this job; the rows of a two-stage run bear the names of its branches."""
    same = (row["data"], row["fold"], row["seed"]) == (job.data.title, job.fold, job.seed)
    return same and (job.two_stage is not None or row["loss"] == job.loss_name)


def _cell_of(row: dict[str, Any]) -> tuple[str, str, str, int, int]:
    return row["data"], row["loss"], row["calibrator"], row["fold"], row["seed"]


def kept(names: Sequence[str] = SPECS) -> list[Kept]:
    """What is in the repository: specs and the rows of their tables."""
    specs = []
    for name in names:
        file = KEPT / f"{name}.parquet"
        if file.exists():
            spec = load_spec(name)
            records = _records(file)
            specs.append(Kept(spec, len({record["run"] for record in records}), lines(spec, records)))
    return specs


def pages() -> dict[Path, str]:
    """Every table: pages of their own, and the pages for reading with what stands between their marks."""
    specs, texts = kept(), {}
    for one in [*specs, *kept(EXPERIMENTS)]:
        parts = [f"# {one.spec.title}", "", _caption(one), ""]
        for data in one.spec.data:
            mine = [line for line in one.lines if line.data == data.title]
            if mine:
                parts += [f"## {data.title}", "", rendered(one.spec, mine, "markdown")]
        texts[KEPT / f"{one.spec.name}.md"] = "\n".join(parts).rstrip() + "\n"
    blocks = {metric: by_loss(specs, metric) for metric in METRICS}
    blocks |= {f"{metric} after": by_calibrator(specs, metric) for metric in ("sce", "rps", "unimodality")}
    blocks |= {"headline": headline(specs), "people": people(), "raw judges": raw_judges()}
    blocks |= {f"defaults {metric}": defaults(_joined(), metric, SHOWN) for metric in ("rps", "accuracy")}
    blocks |= {f"tuned {metric}": defaults(_compared("tuned"), metric, TUNED) for metric in ("rps", "nll")}
    blocks |= {"verdict": verdict(), "tuned verdict": tuned_verdict(), "judges": judges()}
    blocks |= peers()
    if (KEPT / "rater_distances.csv").exists():
        blocks |= {"rater shapes": rater_shapes(), "rater distances": rater_distances()}
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
ByTask = dict[str, dict[str, dict[str, str]]]


def _compared(name: str) -> ByTask:
    """The rows of a table of `benchmarks/defaults.py`, by task and method; none where it is not there."""
    by_task: ByTask = {}
    for row in _read(KEPT / f"{name}.csv") if (KEPT / f"{name}.csv").exists() else []:
        by_task.setdefault(row["task"], {})[row["method"]] = row
    return by_task


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
        values = {name: float(by_method[name][metric]) for name in shown if name in by_method}
        cells: list[str | text.Cell] = [f"{task} ({int(by_method['orcu, default']['rows']):,})"]
        for name in shown:
            cell = _cell(values.get(name), list(values.values()), metric)
            better = name in by_method and metric in by_method[name]["better"].split()
            cells.append(replace(cell, text=f"{cell.text} ▲") if better else cell)
        rows.append(cells)
    headings: list[str | text.Cell] = ["", *(text.Cell(title, markup=True) for title in shown.values())]
    return text.markdown(headings, rows, "l" + "r" * len(shown))


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
        values = {name: float(by_method[name]["rps"]) for name in PEOPLE if name in by_method}
        cells: list[str | text.Cell] = [f"{task} ({int(by_method['orcu, default']['rows']):,})"]
        for name in PEOPLE:
            cell = _cell(values.get(name), list(values.values()), "rps")
            row = by_method.get(name, {"better": "", "worse": ""})
            mark = " ▲" if "rps" in row["better"].split() else " ▼" if "rps" in row["worse"].split() else ""
            cells.append(replace(cell, text=cell.text + mark))
        rival = min((name for name in list(PEOPLE)[:2] if name in by_method), key=values.__getitem__)
        low, high = (100 * float(by_method[rival][end]) / values[rival] for end in ("rps low", "rps high"))
        cells.append(f"{low:+.1f} to {high:+.1f}")
        table.append(cells)
    heads: list[str | text.Cell] = ["", *(text.Cell(title, markup=True) for title in PEOPLE.values()), "gain, %"]
    return text.markdown(heads, table, "l" + "r" * (len(PEOPLE) + 1))


def raw_judges() -> str:
    """Language models as judges: RPS as they come, and calibrated to 200 grades of people."""
    by_judge: dict[str, dict[str, str]] = {}
    for row in _read(KEPT / "judges.csv"):
        if row["human grades"] == "200":
            by_judge.setdefault(row["judge"], {})[row["method"]] = row["rps"]
    table = []
    for judge, methods in by_judge.items():
        values = [float(methods[name]) for name in ("as it comes", "temperature", "orcu judge fit")]
        table.append([judge, *(_cell(value, values, "rps") for value in values)])
    heads: list[str | text.Cell] = ["judge", "as it comes", "+ temperature", text.Cell("`orcu judge fit`", markup=True)]
    return text.markdown(heads, table, "lrrr")


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
        (task, metric): [name for name, row in rows.items() if name not in OURS and metric in row[column_].split()]
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
    """Losses by data sets, before any calibrator; the best of each data set in bold."""
    means, collapsed = {}, set()
    for line in (line for one in specs for line in one.lines if line.calibrator == "none"):
        means[line.data, line.loss] = line.cells[metric].mean
        if line.collapsed:
            collapsed.add((line.data, line.loss))
    data = list(dict.fromkeys(one for one, _ in means))
    losses = list(dict.fromkeys(loss for _, loss in means))
    rows = []
    for loss in losses:
        cells = []
        for one in data:
            rivals = [means[one, other] for other in losses if (one, other) in means and (one, other) not in collapsed]
            cell = _cell(means.get((one, loss)), rivals, metric)
            cells.append(f"{cell.text} {DAGGER}" if (one, loss) in collapsed else cell)
        rows.append([_code(loss), *cells])
    return _markdown([_head(metric), *(SHORT.get(one, one) for one in data)], rows)


def by_calibrator(specs: list[Kept], metric: str) -> str:
    """Losses by calibrators, the mean over all data sets that have the loss."""
    names = specs[0].spec.calibrators
    by_cell = _by_loss_and_calibrator(specs)
    most = max(map(len, by_cell.values()))
    table = []
    for loss in dict.fromkeys(loss for loss, _ in by_cell):
        if len(by_cell[loss, "none"]) == most:
            means = [mean(line.cells[metric].mean for line in by_cell[loss, name]) for name in names]
            table.append([_code(loss), *(_cell(value, means, metric) for value in means)])
    return _markdown([_head(metric), *names], table)


def headline(specs: list[Kept]) -> str:
    """Some losses, before and after our calibrator: the mean over all data sets."""
    by_cell = _by_loss_and_calibrator(specs)
    table = []
    for calibrator, name in (("none", "none"), ("gap+projection", "gap + projection")):
        means = {
            loss: [mean(line.cells[m].mean for line in by_cell[loss, calibrator]) for m in METRICS] for loss in HEADLINE
        }
        for loss in HEADLINE:
            rivals = zip(*means.values(), strict=True)
            cells = [_cell(value, list(r), m) for value, r, m in zip(means[loss], rivals, METRICS, strict=True)]
            table.append([name if loss == HEADLINE[0] else "", _code(loss), *cells])
    return _markdown(["calibrator", "loss", *(_head(m) for m in METRICS)], table, left=2)


def judges() -> str:
    """Judges before and after, by each method with few, some and all human grades; the best bold."""
    shown = ("accuracy", "mae", "qwk", "ece", "sce", "rps", "nll", "unimodality")
    lines = [row for row in _read(KEPT / "judges.csv") if row["human grades"] in ("50", "200", "all")]
    table = []
    for row in lines:
        cells = []
        for metric in shown:
            rivals = [
                float(other[metric])
                for other in lines
                if (other["judge"], other["human grades"]) == (row["judge"], row["human grades"])
            ]
            cells.append(_cell(float(row[metric]), rivals, metric))
        table.append([row["judge"], row["human grades"], row["method"], *cells])
    return _markdown(["judge", "human grades", "method", *map(_head, shown)], table, left=3)


def rater_shapes() -> str:
    """How many human rating distributions are unimodal."""
    table = []
    for row in _read(KEPT / "rater_shapes.csv"):
        shares = (f"{100 * float(row[name]):.1f}" for name in ("unimodal", "if unimodal", "proven not"))
        table.append([row["data"].removeprefix("vader_"), f"{int(row['texts']):,}", row["raters"], *shares])
    heads = ["texts", "how many", "raters (median)", "unimodal %", "unimodal %, if all were", "proven not %"]
    return _markdown(heads, table)


def rater_distances() -> str:
    """Predicted against human distributions: losses by calibrators, the mean over data sets of means over folds."""
    by_cell: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in _read(KEPT / "rater_distances.csv"):
        by_data = by_cell.setdefault((row["loss"], row["calibrator"]), {})
        by_data.setdefault(row["data"], []).append(float(row["distance"]))
    means = {key: mean(mean(folds) for folds in by_data.values()) for key, by_data in by_cell.items()}
    names = list(dict.fromkeys(calibrator for _, calibrator in means if calibrator))
    table = []
    for loss in dict.fromkeys(loss for loss, calibrator in means if calibrator):
        own = [means[loss, name] for name in names]
        cells = [text.Cell(f"{v:.3f}", "best" if v == min(own) else "") for v in own]
        table.append([_code(loss), *cells])
    table.append(["the truth itself would show", f"{means['floor', '']:.3f}", *[""] * (len(names) - 1)])
    return _markdown(["squared distance ↓", *names], table)


def peers() -> dict[str, str]:
    """What `benchmarks/peers.py` has found: who there is, whose numbers differ, what breaks, how fast all are."""
    run = json.loads((KEPT / "peers.json").read_text(encoding="utf-8"))
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


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines_:
        return list(csv.DictReader(lines_))


def _by_loss_and_calibrator(specs: list[Kept]) -> dict[tuple[str, str], list[Line]]:
    """The rows of all data sets for each loss and calibrator."""
    by_cell: dict[tuple[str, str], list[Line]] = {}
    for line in (line for one in specs for line in one.lines):
        by_cell.setdefault((line.loss, line.calibrator), []).append(line)
    return by_cell


def _caption(one: Kept) -> str:
    name = one.spec.name
    about = json.loads(pq.read_schema(KEPT / f"{name}.parquet").metadata[b"orcu"])
    versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items())
    missing = f" {len(about['missing'])} runs are still missing." if about["missing"] else ""
    collapsed = f" {COLLAPSED_NOTE}" if any(line.collapsed for line in one.lines) else ""
    return (
        f"{one.runs} runs of `orcu bench run {name}` ({versions}); mean ± standard deviation over folds and seeds, "
        f"best bold, second underlined within a calibrator.{collapsed}{missing} "
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
    parser.add_argument("--specs", default=",".join(SPECS + EXPERIMENTS), help="which, with commas between")
    options = parser.parse_args()
    if options.step == "collect":
        collect(options.results, options.specs.split(","))
        return
    for file, content in pages().items():
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            with replacing(file) as fresh:
                fresh.write_text(content, encoding="utf-8")
            print(f"wrote {file.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
