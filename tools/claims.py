"""The paper's claims with our results and a verdict: docs/claims.md, from docs/results/*.parquet.

    python tools/claims.py collect --results DIR    paired intervals of single runs to finetuned_pairs.parquet
    python tools/claims.py write                    the generated table of docs/claims.md

A difference is significant if its 95 % interval excludes 0. Over folds it is the corrected t interval of Nadeau and
Bengio (2003), because folds share training rows; over seeds the t interval; for a single run the paired bootstrap of
its test rows.
"""

import argparse
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import archive
from archive import Difference

from orcu import bench
from orcu.bench.significance import BETTER, WORSE
from orcu.evaluation.comparison import paired_differences
from orcu.evaluation.statistics import collect as collect_statistics
from orcu.io.files import atomic_write
from orcu.metrics.base import METRICS
from orcu.predictions import Predictions

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "claims.md"
PAIRS = "finetuned_pairs"
FINETUNED = "results_finetuned"
METRICS_OF_PAIRS = ("accuracy", "mae", "qwk", "ece", "sce", "ace", "rps", "nll", "unimodality", "overconfidence")
EARLY, LATE = "stopped early", "trained to the end"


class Tally(NamedTuple):
    """Number of data sets on which the first is significantly better, not significantly different, or worse."""

    better: int
    level: int
    worse: int

    def __str__(self) -> str:
        count = sum(self)
        if not count:
            return "not run"
        parts = [f"{n} {word}" for n, word in zip(self, ("better", "not significant", "worse"), strict=True) if n]
        return f"{', '.join(parts)} of {count}"


def differences(rows: list[dict[str, Any]], metric: str, first: Any, second: Any) -> list[Difference]:
    """Metric of the first minus the second, by data set, paired by fold and seed.

    Args:
        rows: rows of `archive.load_rows`.
        metric: name of the metric.
        first: a loss, or a loss and a calibrator.
        second: a loss, or a loss and a calibrator.
    """
    pipelines = ((name, "none") if isinstance(name, str) else name for name in (first, second))
    return archive.PairedRuns(rows).differences(metric, *pipelines)


def count_signs(differences_: Iterable[Difference], metric: str) -> Tally:
    """Number of significantly better, not significant and significantly worse differences."""
    marks = [archive.mark(difference.sign, metric) for difference in differences_]
    return Tally(*(marks.count(mark) for mark in (BETTER, "", WORSE)))


def pairs(metric: str, first: str, second: str) -> list[Difference]:
    """Paired differences of the fine-tuned runs."""
    return [
        Difference(f"{row['data']}, fine-tuned", row["value"], row["low"], row["high"])
        for row in archive.load_rows(PAIRS)
        if (row["metric"], row["first"], row.get("second")) == (metric, first, second)
    ]


def collect(results: Path) -> None:
    """Compare every pair of fine-tuned runs on their test rows; archived pairs without new runs are kept."""
    plan = bench.status(FINETUNED, results=results)
    statistics = {}
    for run in plan.finished:
        folder = results / "runs" / str(run.id)
        statistics[run.job.loss_name] = collect_statistics(Predictions.read(folder / "test.parquet"), n_bins=15)[0]
        data = run.job.data.title
    names = set(statistics)
    lines = [row for row in archive.load_rows(PAIRS) if not {row["first"], row.get("second", row["first"])} <= names]
    for first, model in statistics.items():
        for metric in METRICS_OF_PAIRS:
            row = {"data": data, "first": first, "metric": metric}
            lines.append({**row, "value": float(METRICS.get(metric)(model.totals))})
        for second in names - {first}:
            paired = paired_differences(model, statistics[second], 2000, 0)
            for metric in METRICS_OF_PAIRS:
                ends = {end: getattr(paired[metric], end) for end in ("value", "low", "high")}
                lines.append({"data": data, "first": first, "second": second, "metric": metric, **ends})
    lines.sort(key=lambda row: (row["first"], row.get("second", ""), METRICS_OF_PAIRS.index(row["metric"])))
    archive.save_rows(PAIRS, lines, command="python tools/claims.py collect", spec=FINETUNED, resamples=2000)
    print(f"{PAIRS}.parquet: {len(statistics)} runs")


# --- the claims ---


class Claim(NamedTuple):
    """A claim, its location in the paper, the results in both regimes, the verdict, and the specs."""

    text: str
    location: str
    early: str
    late: str
    verdict: str
    specs: str


OTHERS = ("ce", "sord", "co2", "ls", "flsd", "mbls", "mdca", "acls")
CALIBRATING = ("ls", "flsd", "mbls", "mdca", "acls")


def claims() -> list[Claim]:
    """All claims that can be tested here."""
    early, late = archive.load_rows("results_posthoc"), archive.load_rows("results_converged")
    return [
        _lowest("sce", "ORCU has the lowest SCE", "Table III, Section V-A", early, late),
        _lowest("ace", "ORCU has the lowest ACE", "Table III, Section V-A", early, late),
        _against("ece", "sord", "ORCU is better calibrated than SORD (ECE)", "Table III", early, late),
        _against("sce", "sord", "ORCU is better calibrated than SORD (SCE)", "Table III", early, late),
        _against("ece", "ce", "ORCU's ECE is below cross-entropy's", "Table III, Fig. 4", early, late),
        _shape(early, late),
        _calibrating_shape(early, late),
        _against("unimodality", "sord", "ORCU is more often unimodal than SORD", "Table III", early, late),
        _under_confident(early, late),
        _over_confident(early, late),
        _against("qwk", "ce", "ORCU's QWK is no lower than cross-entropy's", "Table IV", early, late, no_worse=True),
        _against("mae", "ce", "ORCU's MAE is no higher than cross-entropy's", "Table IV", early, late, no_worse=True),
        _against(
            "accuracy", "ce", "ORCU's accuracy is no lower than cross-entropy's", "Table IV", early, late, no_worse=True
        ),
        *_two_stage(),
        *_posthoc(early),
        *_ablation(),
        *_scale(),
        _baselines(),
    ]


def _verdict(first: Tally, second: Tally, *, no_worse: bool = False) -> str:
    """Verdict from the results with early stopping and with training to the end."""

    def holds(tally: Tally) -> bool:
        return sum(tally) > 0 and tally.worse == 0 and (no_worse or tally.better > sum(tally) / 2)

    if not sum(first) and not sum(second):
        return "not run"
    if holds(first) and (holds(second) or not sum(second)):
        return "**holds**"
    if holds(second):
        return "**holds when over-fitted**" + (" (one run)" if sum(second) == 1 else "")
    if holds(first):
        return "**holds when stopped early**"
    better, worse = first.better + second.better, first.worse + second.worse
    if not better and not worse:
        return "no difference here"
    return "holds on most, fails on some" if better > worse else "**does not hold here**"


def _both(metric: str, first: str, second: str, early: Any, late: Any) -> tuple[Tally, Tally]:
    late_differences = differences(late, metric, first, second) + pairs(metric, first, second)
    return count_signs(differences(early, metric, first, second), metric), count_signs(late_differences, metric)


def _against(
    metric: str, other: str, text: str, location: str, early: Any, late: Any, *, no_worse: bool = False
) -> Claim:
    one, two = _both(metric, "orcu", other, early, late)
    return Claim(
        text, location, str(one), str(two), _verdict(one, two, no_worse=no_worse), "posthoc, converged, finetuned"
    )


def _lowest(metric: str, text: str, location: str, early: Any, late: Any) -> Claim:
    """ORCU against every other loss; the claim holds on a data set if no other loss is significantly better."""
    cells, sums = [], []
    for rows, extra in ((early, False), (late, True)):
        beaten: dict[str, list[str]] = {}
        others: list[str] = []
        for other in OTHERS:
            compared = differences(rows, metric, "orcu", other) + (pairs(metric, "orcu", other) if extra else [])
            for d in compared:
                beaten.setdefault(d.data, []).extend([other] if d.low > 0 else [])
            others += [other] if compared else []
        unbeaten = sum(not losses for losses in beaten.values())
        by = sorted({loss for losses in beaten.values() for loss in losses})
        cells.append(
            f"none of {len(others)} other losses is better on {unbeaten} of {len(beaten)}"
            + (f"; better on the rest: {', '.join(by)}" if by else "")
            if beaten
            else "not run"
        )
        sums.append(Tally(unbeaten, 0, len(beaten) - unbeaten))
    return Claim(text, location, cells[0], cells[1], _verdict(*sums), "posthoc, converged, finetuned")


def _means(rows: list[dict[str, Any]], metric: str, loss: str, calibrator: str = "none") -> dict[str, list[float]]:
    by_data: dict[str, list[float]] = {}
    for row in rows:
        if row["loss"] == loss and row["calibrator"] == calibrator and metric in row:
            by_data.setdefault(row["data"], []).append(row[metric])
    return by_data


def _range(values: Iterable[float], form: Callable[[float], str] = lambda v: f"{100 * v:.1f}") -> str:
    ordered = sorted(values)
    return "not run" if not ordered else f"{form(ordered[0])} to {form(ordered[-1])}"


def _shape(early: Any, late: Any) -> Claim:
    cells, least = [], []
    for rows in (early, late):
        means = [mean(values) for values in _means(rows, "unimodality", "orcu").values()]
        cells.append(f"{_range(means)} %" if means else "not run")
        least += means
    verdict = "not run" if not least else "**holds**" if min(least) > 0.95 else "**does not hold here**"
    return Claim("ORCU's predictions are unimodal (97 to 100 %)", "Table III", *cells, verdict, "posthoc, converged")


def _calibrating_shape(early: Any, late: Any) -> Claim:
    counts = []
    for rows in (early, late):
        counts += [count_signs(differences(rows, "unimodality", "orcu", loss), "unimodality") for loss in CALIBRATING]
    half = len(CALIBRATING)
    sums = [Tally(*(sum(x) for x in zip(*part, strict=True))) for part in (counts[:half], counts[half:])]
    text = "Calibration losses (LS, FLSD, MbLS, MDCA, ACLS) are less often unimodal than ORCU"
    cells = [f"ORCU {tally}" if sum(tally) else "not run" for tally in sums]
    return Claim(text, "Table III", *cells, _verdict(*sums), "posthoc, converged")


def _signed(rows: Any, loss: str) -> tuple[list[Difference], str]:
    gaps = []
    for data, values in _means(rows, "overconfidence", loss).items():
        if len(values) > 1:
            gaps.append(
                Difference(data, mean(values), *archive.interval(values, archive.OVERLAP if len(values) >= 5 else 0.0))
            )
    return gaps, f"{_range([d.value for d in gaps], lambda v: f'{100 * v:+.1f}')} points" if gaps else "not run"


def _under_confident(early: Any, late: Any) -> Claim:
    (first, one), (second, two) = _signed(early, "sord"), _signed(late, "sord")
    both = [
        Tally(sum(d.high < 0 for d in f), sum(d.low <= 0 <= d.high for d in f), sum(d.low > 0 for d in f))
        for f in (first, second)
    ]
    text = "SORD alone is under-confident (confidence minus accuracy below 0)"
    return Claim(text, "Section III-B, Fig. 4", one, two, _verdict(*both), "posthoc, converged")


def _over_confident(early: Any, late: Any) -> Claim:
    (first, one), (second, two) = _signed(early, "ce"), _signed(late, "ce")
    both = [
        Tally(sum(d.low > 0 for d in f), sum(d.low <= 0 <= d.high for d in f), sum(d.high < 0 for d in f))
        for f in (first, second)
    ]
    text = "Cross-entropy is over-confident"
    return Claim(text, "Fig. 4, Appendix VI-C", one, two, _verdict(*both), "posthoc, converged")


def _two_stage() -> list[Claim]:
    rows, specs = archive.load_rows("results_two_stage"), "two_stage"
    none, location = Tally(0, 0, 0), "Table II, Fig. 3"
    active = {loss: [mean(v) for v in _means(rows, "feasible_active", loss).values()] for loss in ("orcu", "hinge")}
    activity = count_signs(differences(rows, "feasible_active", "orcu", "hinge"), "feasible_active")
    aligned = count_signs(differences(rows, "alignment", "orcu", "hinge"), "alignment")
    claims_ = [
        Claim(
            "The hinge becomes inactive once the order is learned, ORCU stays active at every gap",
            location,
            f"hinge {_range(active['hinge'])} %, ORCU {_range(active['orcu'])} % active; ORCU {activity}",
            "",
            _verdict(activity, none),
            specs,
        ),
        Claim(
            "The gradient of ORCU is more aligned with calibration (A_TF) than that of the hinge",
            location,
            f"ORCU {aligned}",
            "",
            _verdict(aligned, none),
            specs,
        ),
    ]
    for metric, name in (("feasible_sce", "SCE"), ("feasible_ece", "ECE")):
        one = count_signs(
            differences(rows, metric, "orcu", "softce") or differences(rows, metric, "orcu", "sord"), metric
        )
        two = count_signs(differences(rows, metric, "orcu", "hinge"), metric)
        both = Tally(*(a + b for a, b in zip(one, two, strict=True)))
        text = f"After stage two with ORCU, {name} on the ordered rows is lower than with SoftCE or the hinge"
        claims_.append(
            Claim(text, location, f"against SoftCE {one}; against the hinge {two}", "", _verdict(both, none), specs)
        )
    return claims_


def _posthoc(rows: Any) -> list[Claim]:
    none = Tally(0, 0, 0)
    changed = count_signs(differences(rows, "sce", ("orcu", "TS"), "orcu"), "sce")
    best = count_signs(differences(rows, "sce", "orcu", ("ce", "TS")), "sce")
    dirichlet = count_signs(differences(rows, "sce", "orcu", ("ce", "DC")), "sce")
    shape = count_signs(differences(rows, "unimodality", "orcu", ("ce", "DC")), "unimodality")
    no_help = Tally(changed.worse + changed.level, 0, changed.better)
    return [
        Claim(
            "A temperature does not improve ORCU's SCE",
            "Table V",
            f"with TS {changed}",
            "",
            _verdict(no_help, none),
            "posthoc",
        ),
        Claim(
            "ORCU without a calibrator has a lower SCE than cross-entropy with TS",
            "Table V",
            f"{best}",
            "",
            _verdict(best, none),
            "posthoc",
        ),
        Claim(
            "... and than cross-entropy with DC", "Table V", f"{dirichlet}", "", _verdict(dirichlet, none), "posthoc"
        ),
        Claim(
            "Calibrators do not make cross-entropy as unimodal as ORCU",
            "Table V",
            f"ORCU against DC {shape}",
            "",
            _verdict(shape, none),
            "posthoc",
        ),
    ]


def _ablation() -> list[Claim]:
    rows, none, claims_ = archive.load_rows("results_ablation"), Tally(0, 0, 0), []
    for metric, name in (("sce", "SCE"), ("unimodality", "unimodality")):
        cells, total = [], none
        for other in ("MbLS", "MDCA", "ACLS", "SoftPlus"):
            one = count_signs(differences(rows, metric, "SoftCE(Squared)+LBE", f"SoftCE(Squared)+{other}"), metric)
            cells.append(f"{other}: {one}")
            total = Tally(*(a + b for a, b in zip(total, one, strict=True)))
        text = f"With SoftCE, LBE gives a better {name} than MbLS, MDCA, ACLS and SoftPlus"
        claims_.append(Claim(text, "Table VII", "; ".join(cells), "", _verdict(total, none), "ablation"))
    cells, total = [], none
    for distance in ("Absolute", "Huber", "Exponential"):
        one = count_signs(differences(rows, "sce", "SoftCE(Squared)+LBE", f"SoftCE({distance})+LBE"), "sce")
        cells.append(f"{distance}: {one}")
        total = Tally(*(a + b for a, b in zip(total, one, strict=True)))
    text = "The squared distance gives the lowest SCE"
    return [*claims_, Claim(text, "Table VII, Appendix VI-E", "; ".join(cells), "", _verdict(total, none), "ablation")]


def _scale() -> list[Claim]:
    rows, none = archive.load_rows("results_scale"), Tally(0, 0, 0)
    pairs_of = [("s = 3", "s = 1"), ("s = 10", "s = 3"), ("s = 3", "s = 0.1")]
    cells, total = [], none
    for high, low in pairs_of:
        gaps = differences(rows, "overconfidence", high, low)
        one = Tally(
            sum(d.high < 0 for d in gaps), sum(d.low <= 0 <= d.high for d in gaps), sum(d.low > 0 for d in gaps)
        )
        cells.append(
            f"{high} against {low}: less confident on {one.better}, not significant on {one.level}, more confident on "
            f"{one.worse}"
        )
        total = Tally(*(a + b for a, b in zip(total, one, strict=True)))
    text = "The confidence decreases with the scale s"
    return [Claim(text, "Appendix IV-D, Fig. S1", "; ".join(cells), "", _verdict(total, none), "scale")]


def _baselines() -> Claim:
    """Baselines with their best setting against their authors' default."""
    rows = archive.load_rows("results_sensitivity")
    cells = []
    for label, default in (
        ("co2, original", "co2, original, lambda 0.01"),
        ("cdw_ce", "cdw_ce, alpha 5"),
        ("mbls", "mbls, margin 10"),
        ("acls", "acls, margin 10"),
    ):
        settings = sorted({row["loss"] for row in rows if row["loss"].startswith(label)})
        means = {s: [mean(v) for v in _means(rows, "sce", s).values()] for s in settings}
        if default in means and means:
            best = min(means, key=lambda s: mean(means[s]))
            one = count_signs(differences(rows, "sce", best, default), "sce")
            cells.append(f"{best} against {default.removeprefix(label).strip(', ')}: {one}")
    text = (
        "The results of the baselines do not depend on their settings (SCE, best setting against the authors' default)"
    )
    return Claim(
        text,
        "Section V",
        "; ".join(cells) or "not run",
        "",
        "CO2 and CDW-CE depend on their settings, MbLS and ACLS do not" if cells else "not run",
        "sensitivity",
    )


def table() -> str:
    """The claims as a Markdown table."""
    lines = [
        "| claim | in the paper | stopped early | trained to the end | verdict | specs |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(cell or '-' for cell in claim)} |" for claim in claims()]
    return "\n".join(lines)


def page() -> str:
    """The page with an updated table."""
    content = PAGE.read_text(encoding="utf-8")
    pattern = re.compile("(<!-- begin claims -->\n).*?(<!-- end claims -->)", re.DOTALL)
    return pattern.sub(lambda m: f"{m[1]}\n{table()}\n\n{m[2]}", content)


def main() -> None:
    """Run the step of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("collect", "write"))
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder")
    options = parser.parse_args()
    if options.step == "collect":
        collect(options.results)
        return
    content = page()
    with atomic_write(PAGE) as temporary:
        temporary.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
