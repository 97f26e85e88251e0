"""``orcu sets``: fit and apply contiguous prediction sets."""

import json
from dataclasses import dataclass
from typing import Annotated

import typer
from typer import Argument, Option

from orcu.cli.console import say, say_wrote, task
from orcu.cli.files import calibrators_of, check_classes, check_json, check_paths, write_fitted
from orcu.cli.options import Column, LabelledReadOptions, ReadOptions, TableOptions, command
from orcu.errors import InputError
from orcu.io.locations import Location

sets_app = typer.Typer(help="Contiguous prediction sets with guaranteed coverage.", no_args_is_help=True)


@dataclass(frozen=True)
class FitReadOptions(LabelledReadOptions):
    """Columns of the predictions that sets are fitted on."""

    subgroup: Annotated[
        str | None, Column(help="Column of subgroups, such as sites, to guarantee the coverage within each of them.")
    ] = None
    cluster: Annotated[
        str | None, Column(help="Column of clusters, such as patients, to guarantee the coverage of new clusters.")
    ] = None


@command(sets_app)
def fit(
    file: Annotated[
        Location, Argument(help="Labelled calibrated predictions for rows unused in training and calibration.")
    ],
    read: FitReadOptions,
    output: Annotated[Location, Option("--output", "-o", help="Output file of the thresholds (JSON).")],
    alpha: Annotated[
        float, Option(min=0.001, max=0.5, help="Target miscoverage: 0.1 for sets with 90 % coverage.")
    ] = 0.1,
    calibrator_file: Annotated[
        Location | None,
        Option(help="Calibrator that made FILE. It is not applied; rows that it was fitted on are refused."),
    ] = None,
    class_conditional: Annotated[
        bool, Option("--class-conditional", help="Guarantee the coverage within each true class.")
    ] = False,
    target: Annotated[
        str, Option(help="Several raters per case: cover the vote of a new rater, or the majority grade.")
    ] = "vote",
) -> None:
    """Fit the thresholds of contiguous prediction sets (split conformal)."""
    import numpy as np

    from orcu import calibrators
    from orcu.decisions.conformal import REUSED, OrdinalPredictionSets
    from orcu.predictions import Predictions

    check_paths([file, calibrator_file], [output])
    check_json(output)
    options = read.arguments()
    if class_conditional and read.subgroup is not None:
        raise InputError("--class-conditional, --subgroup: give only one of the two.")
    with task(f"fitting sets on {file.name}"):
        predictions = Predictions.read(file, **options)
        for step in predictions.history:
            if step.get("shared"):
                raise InputError(f"{file.name}: {step['shared']:,} of the {step['rows']:,} rows {REUSED}")
        sets = OrdinalPredictionSets(alpha=alpha, class_conditional=class_conditional, target=target)
        calibrator = None if calibrator_file is None else calibrators.load(calibrator_file)
        subgroup = None if read.subgroup is None else predictions.subgroup
        sets.fit(
            predictions.probs,
            predictions.labels_or_votes,
            subgroup=subgroup,
            groups=predictions.cluster,
            ids=predictions.ids,
            calibrator=calibrator,
        )
    if predictions.sample_weight is not None:
        say("sample weights are not used: the coverage counts rows", style="dim")
    write_fitted(output, sets, predictions, file)
    if class_conditional:
        counts = predictions.class_counts
        for name, rows, threshold in zip(predictions.classes, counts, sets.thresholds_, strict=True):
            rule = "in every set" if np.isinf(threshold) else f"threshold {threshold:.3f}"
            say(f"  {name}: {rows:,g} rows, {rule}")
    if subgroup is not None:
        for name, rows in zip(*np.unique(subgroup.astype(str), return_counts=True), strict=True):
            threshold = sets.subgroup_thresholds_.get(str(name))
            rule = "threshold of all rows" if threshold is None else f"threshold {threshold:.3f}"
            say(f"  subgroup {name}: {rows:,} rows, {rule}")
    clusters = "" if sets.n_clusters_ is None else f" of {sets.n_clusters_:,} clusters"
    say_wrote(output, f"fitted on {sets.fitted_on_.count:,} rows{clusters}")


@dataclass(frozen=True)
class ApplyReadOptions(ReadOptions):
    """Columns of the predictions that sets are applied to."""

    subgroup: Annotated[str | None, Column(help="Column of subgroups; the coverage of each is printed.")] = None
    cluster: Annotated[
        str | None, Column(help="Column of clusters, such as patients; intervals of the coverage account for them.")
    ] = None


@command(sets_app)
def apply(
    file: Annotated[Location, Argument(help="Calibrated predictions; labels are optional.")],
    sets: Annotated[Location, Argument(help="Prediction sets written by `orcu sets fit`.")],
    table: TableOptions,
    read: ApplyReadOptions,
) -> None:
    """Write the prediction set of each row; with labels, print coverage and size by class, and judge them.

    The output is FILE with all its rows and columns, and the columns set_low, set_high (class names) and set_size. The
    coverage is that of the rows with a label.
    """
    import numpy as np

    from orcu.decisions.conformal import OrdinalPredictionSets
    from orcu.predictions import open_predictions
    from orcu.predictions.used_rows import UsedRows
    from orcu.predictions.write_back import write_back

    check_paths([file, sets], [table.output])
    options = read.arguments()
    with task(f"reading {file.name}"):
        fitted = OrdinalPredictionSets.load(sets)
        source = open_predictions(file, **options)
        check_classes(sets, source.classes, file)
        predictions, codes = source.load_all_rows()
        fitted.fitted_on_.check_disjoint(
            UsedRows.from_values(predictions.probs, predictions.ids),
            reason=f"in {file.name} were used to fit these sets; apply the sets to other rows.",
        )
        low, high = fitted.predict(predictions.probs, subgroup=predictions.subgroup)
        names, size = np.array(predictions.classes, dtype=object), high - low + 1
        rows = len(predictions)
        columns = {"set_low": names[low], "set_high": names[high], "set_size": size}
        write_back(source, table.output, add=columns, escape_formulas=table.escape_formulas)
    before, now = json.loads(sets.read_text()).get("calibrated"), calibrators_of(predictions)
    if before is not None and before != now:
        then, today = (", ".join(names) or "no calibrator" for names in (before, now))
        say(
            f"WARNING: the sets were fitted on predictions of {then}, these come from {today}: the coverage is not "
            "guaranteed",
            style="bold red",
        )
    if codes is not None and (codes >= 0).any():
        labelled = codes >= 0
        if not labelled.all():
            say(f"{(~labelled).sum():,} of {len(labelled):,} rows have no label; the coverage is that of the others")
        predictions = predictions[labelled]
        report = fitted.coverage_report(
            predictions.probs,
            codes[labelled],
            ids=predictions.ids,
            subgroup=predictions.subgroup,
            cluster=predictions.cluster,
        )
        say(f"coverage {report.coverage:.1%} (target {report.target_coverage:.1%}), mean size {report.size:.2f}")
        parts = [(f"subgroup {name}", part) for name, part in report.by_subgroup.items()]
        for name, part in [*parts, *zip(predictions.classes, report.by_class, strict=True)]:
            say(f"  {name}: {part}" + (f", mean size {part.size:.2f}" if part.rows else ""))
        say(*report.notes(predictions.classes), style="bold yellow")
    say_wrote(table.output, f"{rows:,} rows; new columns: {', '.join(columns)}")
