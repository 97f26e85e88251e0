"""``orcu decide``: from predictions to one class a row, by a rule or by what mistakes cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from orcu.cli.options import (
    Classes,
    Decimal,
    Id,
    Label,
    Logits,
    NoFormulas,
    Percent,
    Probs,
    Separator,
    bad_data,
    check_paths,
    reading_options,
    working,
)
from orcu.errors import UnknownNameError


def decide(
    file: Annotated[Path, typer.Argument(help="Calibrated predictions; labels are not needed.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Write id, decision and confidence here (.csv, .parquet).")],
    by: Annotated[
        str,
        typer.Option(
            help="argmax, median (least MAE), mean, or a CSV of costs: a row for each true class, a column for each "
            "decision."
        ),
    ] = "argmax",
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    id_column: Id = None,
    percent: Percent = False,
    sep: Separator = None,
    decimal: Decimal = None,
    no_formulas: NoFormulas = False,
) -> None:
    """Decide for a class in every row: the likeliest, or the one whose mistakes cost least."""
    import numpy as np
    import pyarrow as pa

    from orcu.decisions.rules import decide_checked
    from orcu.io.writing import write_table
    from orcu.predictions.predictions import Predictions

    check_paths([file], [out])
    check_rule(by)
    options = reading_options(
        probs=probs,
        logits=logits,
        classes=classes,
        sep=sep,
        decimal=decimal,
        label=label,
        id=id_column,
        percent=percent,
    )
    with bad_data(), working(f"reading {file.name}"):
        predictions = Predictions.read(file, **options)
        rule = rule_of(by, predictions.classes)
    decision = decide_checked(predictions.probs, rule)
    names, rows = np.array(predictions.classes, dtype=object), np.arange(len(predictions))
    columns: dict[str, Any] = {
        "id": rows + 1 if predictions.ids is None else predictions.ids,
        "decision": names[decision],
        "confidence": predictions.probs[rows, decision],
    }
    if not isinstance(rule, str):
        columns["expected_cost"] = (predictions.probs @ rule)[rows, decision]
    write_table(pa.table(columns), out, no_formulas=no_formulas)
    console = Console()
    counts = ", ".join(f"{name} {(decision == k).sum():,}" for k, name in enumerate(names))
    console.print(f"decisions: {escape(counts)}", highlight=False)
    if not isinstance(rule, str) and predictions.y is not None:
        likeliest = predictions.probs.argmax(axis=1)
        each = (rule[predictions.labels, one] for one in (decision, likeliest))
        own, plain = (float(np.average(costs, weights=predictions.weight)) for costs in each)
        console.print(f"they cost {own:.4g} a row; the likeliest class would cost {plain:.4g}", highlight=False)
    console.print(f"wrote {escape(str(out))}", highlight=False)


def check_rule(by: str) -> None:
    """Refuse what is neither a rule nor a file, before anything is read.

    Raises:
        UnknownNameError: if it is neither.
    """
    from orcu.decisions.rules import RULES

    if by not in RULES and not Path(by).exists():
        raise UnknownNameError("decision rule, or file of costs,", by, list(RULES))


def rule_of(by: str, classes: Sequence[str]) -> Any:
    """A rule by its name, or the cost matrix of a file.

    Raises:
        InputError: if the costs are not of these classes.
    """
    from orcu.decisions.costs import read_costs
    from orcu.decisions.rules import RULES

    return by if by in RULES else read_costs(by, list(classes))
