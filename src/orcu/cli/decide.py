"""``orcu decide``: one class for each row, by a decision rule or a cost matrix."""

from collections.abc import Sequence
from typing import Annotated, Any

from typer import Argument, Option

from orcu.cli.console import say, say_wrote, task
from orcu.cli.files import check_paths
from orcu.cli.options import ReadOptions, TableOptions
from orcu.errors import InputError, UnknownNameError
from orcu.io.locations import Location, as_location

Rule = Annotated[
    str,
    Option(
        help="Decision rule: argmax, median (least mean absolute error), mean (least mean squared error), or a CSV "
        "cost matrix of true classes and decisions, whose corner says what its rows are: truth or decision."
    ),
]


def decide(
    file: Annotated[Location, Argument(help="Calibrated predictions; labels are optional.")],
    table: TableOptions,
    read: ReadOptions,
    rule: Rule = "argmax",
) -> None:
    """Decide on one class per row: the most likely one, or the one of least expected cost.

    The output is FILE with all its rows and columns, and the columns decision, confidence and, for a cost matrix,
    expected_cost. Rows without a label get a decision too.
    """
    import numpy as np

    from orcu.decisions.rules import decide_checked
    from orcu.predictions import open_predictions
    from orcu.predictions.write_back import write_back

    check_paths([file], [table.output])
    check_rule(rule)
    options = read.arguments()
    with task(f"reading {file.name}"):
        source = open_predictions(file, **options)
        predictions, codes = source.load_all_rows()
        chosen = read_rule(rule, predictions.classes, read.encoding)
        decision = decide_checked(predictions.probs, chosen)
        names, rows = np.array(predictions.classes, dtype=object), np.arange(len(predictions))
        columns: dict[str, Any] = {"decision": names[decision], "confidence": predictions.probs[rows, decision]}
        if not isinstance(chosen, str):
            columns["expected_cost"] = (predictions.probs @ chosen)[rows, decision]
        write_back(source, table.output, add=columns, escape_formulas=table.escape_formulas)
    say("decisions: " + ", ".join(f"{name} {(decision == k).sum():,}" for k, name in enumerate(names)))
    if not isinstance(chosen, str) and codes is not None and (codes >= 0).any():
        labelled = codes >= 0
        weights = None if predictions.sample_weight is None else predictions.sample_weight[labelled]
        cost, argmax_cost = (
            float(np.average(chosen[codes, decisions][labelled], weights=weights))
            for decisions in (decision, predictions.probs.argmax(axis=1))
        )
        count = f" of the {labelled.sum():,} labelled rows" if not labelled.all() else ""
        say(f"mean cost per row{count}: {cost:.4g}; {argmax_cost:.4g} if the most likely class were chosen")
    say_wrote(table.output, f"{len(predictions):,} rows; new columns: {', '.join(columns)}")


def check_rule(rule: str) -> None:
    """Check, before any file is read, that a rule is known or is a file."""
    from orcu.decisions.rules import RULES

    if rule in RULES:
        return
    path = as_location(rule)
    if path.suffix and not path.exists():
        raise InputError(f"--rule: {path}: no such file; expected a CSV cost matrix, or one of {', '.join(RULES)}.")
    if not path.exists():
        raise UnknownNameError("decision rule or cost matrix file", rule, list(RULES))


def read_rule(rule: str, classes: Sequence[str], encoding: str | None = None) -> Any:
    """Return the name of a rule, or the cost matrix of a file, in the order of the classes; say how it was read."""
    from orcu.decisions.costs import read_costs
    from orcu.decisions.rules import RULES

    if rule in RULES:
        return rule
    table = read_costs(rule, list(classes), encoding=encoding)
    if table.reading:
        say(table.reading, style="dim", stderr=True)
    return table.matrix
