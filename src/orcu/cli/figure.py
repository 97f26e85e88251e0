"""``orcu figure``: draw the paper's figures from benchmark results or files of predictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

from orcu.cli.console import USAGE_ERROR, escape, new_table, say, say_problem, say_wrote, show
from orcu.cli.options import LabelledReadOptions, key_values, names
from orcu.errors import InputError, MissingExtraError, UnknownNameError

if TYPE_CHECKING:
    from orcu.figures.sources import Sources

LIST, ALL = "list", "all"


def figure(
    figures: Annotated[list[str], Argument(help="Names of figures, 'all', or 'list' to list them.")],
    read: LabelledReadOptions,
    from_: Annotated[
        list[str] | None,
        Option(
            "--from", help="Benchmark, training or two-stage results, or predictions: PATH or NAME=PATH; repeatable."
        ),
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Output file (.pdf, .svg, .png), or folder for several figures.")
    ] = None,
    form: Annotated[
        str | None, Option("--format", help="Format of several figures: pdf (default), svg or png.")
    ] = None,
    data: Annotated[str | None, Option(help="Data sets to draw: a,b. Default: all.")] = None,
    losses: Annotated[str | None, Option(help="Losses to draw, in this order: a,b. Default: all that fit.")] = None,
    calibrator: Annotated[
        str | None,
        Option(help="Calibrator of the predictions, fitted on the validation rows of each run: temperature, ..."),
    ] = None,
    width: Annotated[str, Option(help="Width: column (3.5 in), page (7.16 in) or screen (10 in).")] = "page",
    set_: Annotated[list[str] | None, Option("--set", help="KEY=VALUE option of a figure; repeatable.")] = None,
) -> None:
    """Draw the paper's figures from results; `orcu figure list` lists them."""
    from orcu.figures.base import FIGURES
    from orcu.figures.save import check_format
    from orcu.figures.sources import Sources

    if figures == [LIST]:
        show(_figure_table())
        return
    everything = ALL in figures
    chosen = FIGURES.names() if everything else list(dict.fromkeys(figures))
    kinds = {name: FIGURES.get(name) for name in chosen}
    if output is None:
        raise InputError("--output: give the output file, such as -o out.pdf.")
    several = everything or len(figures) > 1
    suffix = "." + check_format(form or "pdf")
    if several and output.suffix:
        raise InputError(f"--output {output}: several figures are written to a folder; give a folder and --format.")
    if not several and check_format(output.suffix[1:] or output.name) != check_format(form or output.suffix[1:]):
        raise InputError(f"--format {form}: contradicts --output {output}; change one of the two.")
    for option, text in {"data": data, "losses": losses, "calibrator": calibrator}.items():
        if text is not None and not any(option in kind.filters for kind in kinds.values()):
            raise InputError(f"--{option}: not used by {', '.join(chosen)}; leave it out.")
    if calibrator is not None and (others := [name for name in chosen if "calibrator" not in kinds[name].filters]):
        say(f"--calibrator changes nothing in {', '.join(others)}")
    reading = read.arguments()
    sources = Sources(
        from_ or [],
        data=[*dict.fromkeys(names(data))],
        losses=[*dict.fromkeys(names(losses))],
        calibrator=calibrator,
        read_options=reading,
    )
    if not any(run.is_file for run in sources.runs()):
        for option in reading:
            raise InputError(f"--{option}: used only for files of predictions, and --from gives none.")
    settings = key_values(set_)
    if not several:
        _draw(figures[0], sources, output, width, settings)
        say_wrote(output)
        return
    options = {key for kind in kinds.values() for key in kind.options()}
    for key in settings:
        if key not in options:
            raise UnknownNameError("option of these figures", key, sorted(options))
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error.strerror or error}).") from None
    failures = []
    for name, kind in kinds.items():
        path = (output / name).with_suffix(suffix)
        try:
            _draw(name, sources, path, width, {key: settings[key] for key in settings if key in kind.options()})
        except (InputError, MissingExtraError) as error:
            failures.append(error)
        else:
            say_wrote(path)
    # 'all' draws what the sources allow; figures that were named must be drawn.
    for failure in failures:
        if everything:
            show(f"[yellow]skipped[/] {escape(str(failure))}")
        else:
            say_problem("error", failure)
    if failures and not everything:
        raise typer.Exit(USAGE_ERROR)


def _draw(name: str, sources: "Sources", path: Path, width: str, settings: dict[str, str]) -> None:
    from orcu.figures.base import FIGURES, make
    from orcu.figures.save import save

    defaults = FIGURES.get(name).options()
    options = {key: _value(key, text, defaults.get(key)) for key, text in settings.items()}
    sources.notes.clear()
    save(make(name, sources, width=width, **options), path)
    say(*sources.notes)


def _value(key: str, text: str, default: Any) -> Any:
    """Convert the text of an option to the type of its default."""
    if not isinstance(default, (int, float)):
        return text
    try:
        return type(default)(text)
    except ValueError:
        expected = "a whole number" if isinstance(default, int) else "a number"
        raise InputError(f"--set {key}: expected {expected}, got {text!r}.") from None


def _figure_table() -> Table:
    from orcu.figures.base import FIGURES

    table = new_table("figure", "content (options of --set)", "paper", "needs")
    for column in (table.columns[0], table.columns[2]):
        column.no_wrap = True
    for name in FIGURES.names():
        kind = FIGURES.get(name)
        options = ", ".join(f"{key}={value}" if value != "" else key for key, value in kind.options().items())
        content = escape(kind.title) + (f"\n[dim]{escape(options)}[/]" if options else "")
        table.add_row(name, content, kind.paper, kind.needs or "nothing")
    return table
