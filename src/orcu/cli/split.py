"""``orcu split``: divide a table into files, with clusters kept together and classes in equal shares."""

from typing import Annotated

from typer import Argument, Option

from orcu.cli.console import escape, new_table, say_wrote, show, task
from orcu.cli.files import check_paths
from orcu.cli.options import Column, Encoding, Separator, key_values, separator
from orcu.errors import InputError
from orcu.io.locations import Location, as_location


def split(
    file: Annotated[Location, Argument(help="Table to divide (.csv, .csv.gz or .parquet).")],
    part: Annotated[
        list[str],
        Option(help="Output file and its share of the rows, such as test.csv=0.5; repeatable. The shares sum to 1."),
    ],
    label: Annotated[str | None, Column(help="Column of the true class, whose shares are kept equal.")] = None,
    cluster: Annotated[str | None, Column(help="Column of clusters, such as patients, that stay together.")] = None,
    sep: Separator = None,
    encoding: Encoding = None,
    seed: Annotated[int, Option(min=0, help="Random seed of the division.")] = 0,
) -> None:
    """Divide a table into parts, for example for calibration, prediction sets and testing.

    Every row is in exactly one part, unchanged.
    """
    from orcu.data.split_file import split_file

    shares = {as_location(name): _share(name, text) for name, text in key_values(part, option="--part").items()}
    if len(shares) < len(part):
        raise InputError("--part: a file is given twice.")
    check_paths([file], [*shares])
    with task(f"dividing {file.name}"):
        parts = split_file(
            file, shares, label=label, cluster=cluster, sep=separator(sep), encoding=encoding, random_state=seed
        )
    labels = [f">{name or 'no label'}" for name in parts[0].labels]
    table = new_table("part", ">rows", *([] if cluster is None else [">clusters"]), *labels, wrap=False)
    for written in parts:
        counts = [written.rows, *([] if written.clusters is None else [written.clusters]), *written.labels.values()]
        table.add_row(escape(written.path.name), *(f"{count:,}" for count in counts))
    show(table)
    for written in parts:
        say_wrote(written.path)


def _share(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--part {name}={text}: expected a share of the rows, such as {name}=0.5.") from None
