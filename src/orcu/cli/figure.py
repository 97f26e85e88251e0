"""``orcu figure``: the paper's figures from results or files of predictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orcu.cli.options import Classes, Id, Label, Logits, Probs, pairs, reading_options, working
from orcu.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from orcu.figures.sources import Sources

LIST, ALL = "list", "all"
FAILED = 2


def figure(
    names: Annotated[list[str], typer.Argument(help="Names of figures, 'all', or 'list' to see them.")],
    from_: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Results of a benchmark, a folder of orcu train or two-stage, or predictions; NAME=PATH names it.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A .pdf, .svg or .png file; a folder for several figures.")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="Of several figures: pdf, svg or png; pdf by default.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Only these data sets: a,b.")] = None,
    losses: Annotated[str | None, typer.Option(help="Only these losses, in this order: a,b.")] = None,
    width: Annotated[str, typer.Option(help="column (3.5 in), page (7.16 in) or screen (10 in).")] = "page",
    set_: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE of a figure, such as scale=5.")] = None,
    label: Label = None,
    probs: Probs = None,
    logits: Logits = None,
    classes: Classes = None,
    id_column: Id = None,
) -> None:
    """Draw the paper's figures from results; `orcu figure list` shows what there is."""
    from orcu.figures.base import FIGURES
    from orcu.figures.save import checked_format
    from orcu.figures.sources import Sources

    console = Console()
    if names == [LIST]:
        console.print(_listed())
        return
    for name in names:
        if name != ALL:
            FIGURES.get(name)
    if out is None:
        raise InputError("-o: say where to write, such as -o out.pdf.")
    several = len(names) > 1 or names == [ALL]
    if several:
        if out.suffix:
            raise InputError(f"-o {out}: several figures go into a folder; give one, and --format pdf.")
        kind = checked_format(format_ or "pdf")
    else:
        kind = checked_format(out.suffix.removeprefix(".") or out.name)
        if format_ is not None and checked_format(format_) != kind:
            raise InputError(f"--format {format_}: -o {out} says {kind}; give one of the two, or let them agree.")
    _refuse_idle(names, data=data, losses=losses)
    reading = reading_options(
        probs=probs, logits=logits, classes=classes, sep=None, decimal=None, label=label, id=id_column
    )
    sources = Sources(from_ or [], data=_parts(data), losses=_parts(losses), reading=reading)
    _refuse_unread(sources, reading)
    settings = pairs(set_ or [], "--set")
    if not several:
        _draw(names[0], sources, out, width, settings)
        console.print(f"wrote {escape(str(out))}", highlight=False)
        return
    _refuse_unused(settings, names)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"-o {out}: cannot be written ({error.strerror or error}).") from None
    everything, failed = ALL in names, []
    for name in FIGURES.names() if everything else dict.fromkeys(names):
        path = out / f"{name}.{kind}"
        try:
            with working(f"drawing {name}"):
                _draw(name, sources, path, width, _of_figure(name, settings))
        except (InputError, MissingExtraError) as error:
            failed.append(str(error))
            continue
        console.print(f"wrote {escape(str(path))}", highlight=False)
    # With 'all' the sources need not hold everything; what was named is missed.
    screen = console if everything else Console(stderr=True)
    start = "[yellow]left out[/]" if everything else "[bold red]error:[/]"
    for text in failed:
        screen.print(f"{start} {escape(text)}", highlight=False, soft_wrap=True)
    if failed and not everything:
        raise typer.Exit(FAILED)


def _draw(name: str, sources: "Sources", path: Path, width: str, settings: dict[str, str]) -> None:
    from orcu.figures.base import FIGURES, make
    from orcu.figures.save import save

    known = FIGURES.get(name).options()
    options = {key: _value(key, text, known.get(key)) for key, text in settings.items()}
    save(make(name, sources, width=width, **options), path)


def _value(key: str, text: str, default: Any) -> Any:
    """A text as the kind of thing that the option's default is."""
    if isinstance(default, (int, float)):
        try:
            return type(default)(text)
        except ValueError:
            kind = "a whole number" if isinstance(default, int) else "a number"
            raise InputError(f"--set {key}: expected {kind}, got {text!r}.") from None
    return text


def _of_figure(name: str, settings: dict[str, str]) -> dict[str, str]:
    from orcu.figures.base import FIGURES

    known = FIGURES.get(name).options()
    return {key: text for key, text in settings.items() if key in known}


def _refuse_unused(settings: dict[str, str], names: list[str]) -> None:
    from orcu.errors import UnknownNameError
    from orcu.figures.base import FIGURES

    asked = FIGURES.names() if ALL in names else names
    known = {key for name in asked for key in FIGURES.get(name).options()}
    for key in settings:
        if key not in known:
            raise UnknownNameError("option of these figures", key, sorted(known))


def _refuse_idle(names: list[str], **choices: str | None) -> None:
    """Refuse a choice that none of the figures has a use for."""
    from orcu.figures.base import FIGURES

    asked = FIGURES.names() if ALL in names else names
    for option, text in choices.items():
        if text is not None and not any(option in FIGURES.get(name).takes for name in asked):
            raise InputError(f"--{option}: {', '.join(asked)} has no {option} to choose from; leave it out.")


def _refuse_unread(sources: "Sources", reading: dict[str, Any]) -> None:
    """Read what there is, so that a wrong name is told once; refuse options that no file is read with."""
    runs = sources.runs()
    for option, value in reading.items():
        if value is not None and not any(run.is_file for run in runs):
            raise InputError(f"--{option}: only files of predictions are read by it, and --from names none.")


def _parts(text: str | None) -> list[str]:
    parts = [part.strip() for part in (text or "").split(",")]
    return list(dict.fromkeys(part for part in parts if part))


def _listed() -> Table:
    from orcu.figures.base import FIGURES

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("figure", "what it shows (options of --set)", "paper", "needs"):
        table.add_column(heading, no_wrap=heading in ("figure", "paper"))
    for name in FIGURES.names():
        kind = FIGURES.get(name)
        options = ", ".join(f"{key}={value}" if value != "" else key for key, value in kind.options().items())
        shown = escape(kind.title) + (f"\n[dim]{escape(options)}[/]" if options else "")
        table.add_row(name, shown, kind.paper, kind.needs or "nothing")
    return table
