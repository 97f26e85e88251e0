"""What every data set keeps: a complete card, rows of its classes, folds that do not leak, errors for missing files."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orcu.data.base import DATASETS, IMAGES, TABLE, TEXTS, Dataset, Row
from orcu.data.prepare import prepare
from orcu.errors import InputError
from orcu.testing.contract import Contract, demand, refuses

CONTENT = {IMAGES: "path", TEXTS: "text", TABLE: "features"}


@dataclass(frozen=True)
class _Subject:
    name: str
    cls: type[Dataset]
    root: Path | None  # as it was handed in: where a package carries the data there is none
    options: dict[str, Any]

    @property
    def title(self) -> str:
        return f"data set {self.name!r}"

    def make(self) -> Dataset:
        dataset: Dataset = DATASETS.create(self.name, **self.options)
        return dataset

    def rows(self, dataset: Dataset) -> list[Row]:
        return list(dataset.rows(self.root or dataset.root() or Path()))


CONTRACT: Contract[_Subject] = Contract()


def check_dataset(dataset: str | type[Dataset], root: str | Path | None = None, **options: Any) -> None:
    """Run the contract of data sets on one of yours.

    Args:
        dataset: its registered name, or the class.
        root: a folder with a few files in its layout; not needed where a package carries the data.
        options: of the data set.

    Raises:
        ContractError: if it breaks rules; a line for each, with the rows and how to mend it.
        InputError: if it is no registered data set, or a folder is needed and there is none.

    Example:
        >>> check_dataset("esl")
    """
    subject = _subject(dataset, root, options)
    if not _has_rows(subject):
        card = subject.cls.card
        raise InputError(f"root: {subject.title} reads files; give a folder with a few in its layout: {card.layout}")
    CONTRACT.check(subject)


def dataset_checks(
    dataset: str | type[Dataset], root: str | Path | None = None, **options: Any
) -> dict[str, Callable[[], None]]:
    """The rules that concern a data set by name, for a test of each; see `check_dataset` for the arguments.

    Without a root only those of the card, unless a package carries the data.

    Example:
        >>> list(dataset_checks("limuc"))
        ['the card is complete', 'every protocol has folds']
    """
    return CONTRACT.checks(_subject(dataset, root, options))


def _subject(dataset: Any, root: str | Path | None, options: dict[str, Any]) -> _Subject:
    if isinstance(dataset, str):
        name, cls = dataset, DATASETS.get(dataset)
    elif isinstance(dataset, type) and issubclass(dataset, Dataset):
        names = [name for name in DATASETS.names() if DATASETS.get(name) is dataset]
        if not names:
            raise InputError(
                f"dataset: {dataset.__name__} is not registered; put @DATASETS.register('its name') above the class."
            )
        name, cls = names[0], dataset
    else:
        kind = dataset.__name__ if isinstance(dataset, type) else f"an instance of {type(dataset).__name__}"
        raise InputError(
            f"dataset: expected a registered name, or a class that derives from orcu.data.Dataset, got {kind}."
            + (" Hand in its class." if isinstance(dataset, Dataset) else "")
        )
    return _Subject(name, cls, None if root is None else Path(root), options)


def _has_rows(subject: _Subject) -> bool:
    return subject.root is not None or (subject.cls.card.package is not None and subject.make().root() is not None)


@CONTRACT.rule("Fill the fields of its Card.")
def _the_card_is_complete(subject: _Subject) -> None:
    card = subject.cls.card
    empty = [name for name in ("title", "licence", "citation", "obtain", "layout") if not getattr(card, name).strip()]
    demand(not empty, f"its card says nothing under {', '.join(empty)}")
    demand(card.kind in CONTENT, f"its kind is {card.kind!r}, expected one of {', '.join(CONTENT)}")
    demand(len(set(card.classes)) == len(card.classes), "its card names a class twice")
    demand(len(card.classes) != 1, "its card names one class, expected two or more, or none if the user's data decide")
    if card.counts is not None:
        demand(
            len(card.counts) == len(card.classes),
            f"its card has {len(card.counts)} counts for {len(card.classes)} classes",
        )


@CONTRACT.rule("Give protocols = {name: protocol}, or leave the five folds of the base class.")
def _every_protocol_has_folds(subject: _Subject) -> None:
    protocols = subject.cls.protocols
    demand(protocols, "it has no protocol")
    for name, protocol in protocols.items():
        demand(protocol.num_folds >= 1, f"the protocol {name!r} has {protocol.num_folds} folds")
    demand(not subject.cls.card.paper or "paper" in protocols, "it is one of the paper's, without a protocol 'paper'")


@CONTRACT.rule("rows() yields a Row(id, label, ...) with one of path, text and features, as its kind says.", _has_rows)
def _rows_are_cases_of_its_classes(subject: _Subject) -> None:
    dataset = subject.make()
    rows = subject.rows(dataset)
    demand(rows, "there are no rows")
    content, classes = CONTENT[dataset.card.kind], len(dataset.classes)  # known now also where the files decide
    first, ids = rows[0], set()
    for number, row in enumerate(rows):
        where = f"row {number} ({row.id!r})"
        demand(isinstance(row.id, str) and row.id, f"row {number} has the id {row.id!r}, expected a text")
        demand(row.id not in ids, f"{where}: the id stands twice")
        ids.add(row.id)
        demand(0 <= row.label < classes, f"{where} has label {row.label}, expected 0..{classes - 1}")
        filled = [name for name in CONTENT.values() if getattr(row, name) is not None]
        demand(filled == [content], f"{where} has {' and '.join(filled) or 'nothing'}, expected {content} alone")
        demand(
            list(row.features or ()) == list(first.features or ()),
            f"{where} has the features {list(row.features or ())}, row 0 {list(first.features or ())}",
        )
        for name in ("subject", "split"):
            value = getattr(row, name)
            demand(
                value is None or isinstance(value, str), f"{where} has the {name} {value!r}, expected a text or None"
            )
    labels = {row.label for row in rows}
    demand(len(labels) > 1, f"all rows have label {first.label}; two classes or more are needed")


@CONTRACT.rule("Sort what the file system lists, and leave chance out of rows(): folds are dealt by orcu.", _has_rows)
def _reading_twice_gives_the_same_rows(subject: _Subject) -> None:
    rows, again = subject.rows(subject.make()), subject.rows(subject.make())
    demand(len(rows) == len(again), f"there are {len(rows):,} rows, then {len(again):,}")
    for number, (one, other) in enumerate(zip(rows, again, strict=True)):
        demand(repr(one) == repr(other), f"row {number} is {one!r}, then {other!r}")  # NaN is not equal to itself


@CONTRACT.rule("See what `orcu data prepare` says of it; rows of a subject need its name in Row.subject.", _has_rows)
def _it_can_be_prepared_and_no_fold_leaks(subject: _Subject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        prepared, _ = prepare(subject.name, subject.root, out=folder, options=subject.options)
        expected, rows = len(subject.rows(subject.make())), len(prepared.manifest)
        demand(rows == expected, f"{rows:,} rows were prepared of {expected:,}")
        people = prepared.manifest.column("subject")
        for name, folds in prepared.protocols().items():
            for fold in range(folds):
                splits = [set(part.tolist()) for part in prepared.split(name, fold).values()]
                demand(len(set.union(*splits)) == sum(map(len, splits)), f"{name}, fold {fold}: a row is in two splits")
                if subject.cls.protocols[name].by_subject:
                    sides = [{people[row] for row in split} - {None} for split in splits]
                    demand(
                        len(set.union(*sides)) == sum(map(len, sides)),
                        f"{name}, fold {fold}: a subject is in two splits",
                    )


@CONTRACT.rule(
    "Use need_file(path, self.card), which names the file, the layout and how to get the data.",
    lambda subject: subject.root is not None,
)
def _missing_files_are_named(subject: _Subject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "empty")
        empty.mkdir()
        call = {"out": Path(folder, "out"), "options": subject.options}
        refuses(lambda: prepare(subject.name, empty, **call), "empty", "an empty folder")  # type: ignore[arg-type]
