"""The results in the documentation, from the runs to the tables.

    python tools/results.py collect --results DIR    finished runs of the specs to docs/results/*.parquet
    python tools/results.py write                    those to docs/results/*.md and the marked parts of README and docs

The Parquet files hold a row for each run and calibrator, with the spec, the versions and what is missing in
their metadata; they are kept in the repository, the runs are not.
"""

import argparse
import csv
import json
import platform
import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from orcu.bench.collect import planned, records
from orcu.bench.columns import column, heading
from orcu.bench.spec import CONFIGS, Spec, load_spec
from orcu.bench.tables import compared, lines, rendered
from orcu.tables.files import replacing

DOCS = Path(__file__).parents[1] / "docs"
KEPT = DOCS / "results"
PAGES = (DOCS / "results.md", DOCS.parent / "README.md")
SPECS = ("results_tables", "results_images", "results_retina", "results_text")
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
COLLAPSED = 0.1  # QWK below which a model has learned nothing
HEADLINE = ("ce", "sord", "ls", "mdca", "orcu")


def collect(results: Path) -> None:
    """The finished runs of every spec, as one small table each."""
    KEPT.mkdir(exist_ok=True)
    for name in SPECS:
        spec = load_spec(name)
        plan = planned(spec, results / name)
        told = records(spec, results / name)
        if not told:
            print(f"{name}: no run is finished")
            continue
        missing = [one.job.title for one in plan if one.state != "finished"]
        about = {
            "spec": (CONFIGS / f"{name}.toml").read_text(encoding="utf-8"),
            "versions": {
                "python": platform.python_version(),
                **{one: version(one) for one in ("orcu", "torch", "numpy", "scikit-learn")},
            },
            "conventions": "the paper's: 15 bins (a, b], classes weighted alike; fractions, not percent",
            "missing": missing,
        }
        table = pa.Table.from_pylist(told).replace_schema_metadata({"orcu": json.dumps(about)})
        with replacing(KEPT / f"{name}.parquet") as fresh:
            pq.write_table(table, fresh, compression="zstd")
        print(f"{name}: {len(plan) - len(missing)} of {len(plan)} runs")


def kept() -> list[tuple[Spec, list[dict[str, Any]]]]:
    """What is in the repository: specs and their records."""
    found = []
    for name in SPECS:
        file = KEPT / f"{name}.parquet"
        if file.exists():
            told = pq.read_table(file).to_pylist()
            plain = [{k: v for k, v in row.items() if v is not None} for row in told]
            found.append((load_spec(name), plain))
    return found


def pages() -> dict[Path, str]:
    """Every table: pages of their own, and the pages for reading with what stands between their marks."""
    told, made = kept(), {}
    for spec, found in told:
        parts = [f"# {spec.title}", "", _caption(spec, found), ""]
        table = lines(spec, found)
        for data in spec.data:
            mine = [line for line in table if line.data == data.title]
            if mine:
                parts += [f"## {data.title}", "", rendered(spec, mine, "markdown")]
        made[KEPT / f"{spec.name}.md"] = "\n".join(parts).rstrip() + "\n"
    blocks = {metric: by_loss(told, metric) for metric in METRICS}
    blocks |= {f"{metric} after": by_calibrator(told, metric) for metric in ("sce", "rps", "unimodality")}
    blocks |= {"paper": beside_paper(told), "headline": headline(told)}
    if (KEPT / "rater_distances.csv").exists():
        blocks |= {"rater shapes": rater_shapes(), "rater distances": rater_distances()}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name, block in blocks.items():
            pattern = re.compile(f"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
            text = pattern.sub(lambda m, block=block: f"{m[1]}\n{block}\n{m[2]}", text)
        made[page] = text
    return made


def by_loss(told: list[tuple[Spec, list[dict[str, Any]]]], metric: str) -> str:
    """Losses by data sets, before any calibrator; the best of each data set in bold."""
    means, collapsed = {}, set()
    for spec, found in told:
        for line in lines(spec, found):
            if line.calibrator == "none":
                means[line.data, line.loss] = line.cells[metric].mean
                if line.cells["qwk"].mean < COLLAPSED:
                    collapsed.add((line.data, line.loss))
    data = list(dict.fromkeys(one for one, _ in means))
    losses = list(dict.fromkeys(loss for _, loss in means))
    rows = []
    for loss in losses:
        cells = []
        for one in data:
            rivals = [means[one, other] for other in losses if (one, other) in means and (one, other) not in collapsed]
            cell = _bold(means.get((one, loss)), rivals, metric)
            cells.append(f"{cell.strip('*')} †" if (one, loss) in collapsed else cell)
        rows.append([f"`{loss}`" if loss.isidentifier() else loss, *cells])
    return _markdown([_head(metric), *(SHORT.get(one, one) for one in data)], rows)


def by_calibrator(told: list[tuple[Spec, list[dict[str, Any]]]], metric: str) -> str:
    """Losses by calibrators, the mean over all data sets that have the loss."""
    names = told[0][0].calibrators
    found: dict[tuple[str, str], list[float]] = {}
    for spec, rows in told:
        for line in lines(spec, rows):
            found.setdefault((line.loss, line.calibrator), []).append(line.cells[metric].mean)
    most = max(len(values) for values in found.values())
    losses = [one for one in dict.fromkeys(loss for loss, _ in found) if len(found[one, "none"]) == most]
    table = []
    for loss in losses:
        means = [mean(found[loss, name]) for name in names]
        table.append([f"`{loss}`", *(_bold(value, means, metric) for value in means)])
    return _markdown([_head(metric), *names], table)


def beside_paper(told: list[tuple[Spec, list[dict[str, Any]]]]) -> str:
    """SST-5 from scratch beside Table VI."""
    rows: dict[str, dict[str, tuple[float, float]]] = {}
    for spec, found in told:
        for one in compared(spec, lines(spec, found)):
            rows.setdefault(one["loss"], {})[one["metric"]] = (one["ours"], one["paper"])
    metrics = [m for m in ("ece", "unimodality", "mae") if any(m in r for r in rows.values())]
    heads = ["loss", *(f"{_head(m)}, {who}" for m in metrics for who in ("ours", "paper"))]
    heads = [head.replace("MAE", "100 MAE") for head in heads]  # the paper prints it so
    table = [
        [f"`{loss}`", *(f"{value:.1f}" for m in metrics for value in row.get(m, (float("nan"),) * 2))]
        for loss, row in rows.items()
    ]
    return _markdown(heads, table)


def headline(told: list[tuple[Spec, list[dict[str, Any]]]]) -> str:
    """Some losses, before and after our calibrator: the mean over all data sets."""
    found: dict[tuple[str, str], list[Any]] = {}
    for spec, rows in told:
        for line in lines(spec, rows):
            found.setdefault((line.loss, line.calibrator), []).append(line)
    table = []
    for calibrator, name in (("none", "none"), ("gap+projection", "gap + projection")):
        for loss in HEADLINE:
            mine = found[loss, calibrator]
            means = [mean(line.cells[m].mean for line in mine) for m in METRICS]
            rivals = [
                [mean(line.cells[m].mean for line in found[other, calibrator]) for other in HEADLINE] for m in METRICS
            ]
            cells = [_bold(v, r, m) for v, r, m in zip(means, rivals, METRICS, strict=True)]
            table.append([name if loss == HEADLINE[0] else "", f"`{loss}`", *cells])
    return _markdown(["calibrator", "loss", *(_head(m) for m in METRICS)], table, left=2)


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
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in _read(KEPT / "rater_distances.csv"):
        cell = found.setdefault((row["loss"], row["calibrator"]), {})
        cell.setdefault(row["data"], []).append(float(row["distance"]))
    means = {key: mean(mean(folds) for folds in cell.values()) for key, cell in found.items()}
    names = list(dict.fromkeys(calibrator for _, calibrator in means if calibrator))
    table = []
    for loss in dict.fromkeys(loss for loss, calibrator in means if calibrator):
        own = [means[loss, name] for name in names]
        cells = [f"**{v:.3f}**" if v == min(own) else f"{v:.3f}" for v in own]
        table.append([f"`{loss}`" if loss.isidentifier() else loss, *cells])
    table.append(["the truth itself would show", f"{means['floor', '']:.3f}", *[""] * (len(names) - 1)])
    return _markdown(["squared distance ↓", *names], table)


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines_:
        return list(csv.DictReader(lines_))


def _caption(spec: Spec, found: list[dict[str, Any]]) -> str:
    meta = json.loads(pq.read_schema(KEPT / f"{spec.name}.parquet").metadata[b"orcu"])
    versions = ", ".join(f"{name} {one}" for name, one in meta["versions"].items())
    runs = len({row["run"] for row in found})
    missing = f" {len(meta['missing'])} runs are still missing." if meta["missing"] else ""
    return (
        f"{runs} runs of `orcu bench run {spec.name}` ({versions}); mean ± standard deviation over folds and seeds, "
        f"best bold, second underlined within a calibrator.{missing} "
        f"Epochs and sizes stand in `configs/{spec.name}.toml`."
    )


def _head(metric: str) -> str:
    return heading(metric).replace(metric, WORDS.get(metric, metric))


def _bold(value: float | None, rivals: list[float], metric: str) -> str:
    if value is None:
        return "-"
    better, percent = column(metric)[0], column(metric)[1]
    best = max(rivals) if better == "higher" else min(rivals)
    text = f"{100 * value:.1f}" if percent else f"{value:.3f}"
    shown = f"{100 * best:.1f}" if percent else f"{best:.3f}"
    return f"**{text}**" if text == shown else text


def _markdown(headings: Iterable[str], rows: list[list[str]], left: int = 1) -> str:
    headings = list(headings)
    top = f"| {' | '.join(headings)} |\n|{'---|' * left}{'---:|' * (len(headings) - left)}"
    return "\n".join([top, *(f"| {' | '.join(row)} |" for row in rows), ""])


def main() -> None:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("collect", "write"))
    parser.add_argument("--results", type=Path, default=Path("results"), help="the folder of results")
    told = parser.parse_args()
    if told.step == "collect":
        collect(told.results)
        return
    for file, text in pages().items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            with replacing(file) as fresh:
                fresh.write_text(text, encoding="utf-8")
            print(f"wrote {file.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
