"""Contract of data sets: card, protocols, rows, reproducible reading, folds without leakage, missing files."""

import tempfile
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from orcu.data.base import DATASETS, IMAGES, TABLE, TEXTS, Dataset, Row
from orcu.data.prepare import prepare
from orcu.errors import InputError
from orcu.testing.contract import Contract, Rule, expect, expect_error, wrong_type

CONTENT = {IMAGES: "path", TEXTS: "text", TABLE: "features"}
HAS_ROWS = attrgetter("has_rows")


def check_dataset(dataset: str | type[Dataset], root: str | Path | None = None, **options: Any) -> None:
    """Check the contract of data sets.

    Args:
        dataset: registered name, or class.
        root: folder with a few files in its layout; not needed if a package contains the data.
        options: options of the data set.

    Raises:
        ContractError: if rules are broken; the message has a line for each, with the rows and how to fix it.
        InputError: if it is not a registered data set, or a folder is needed and not given.

    Example:
        >>> check_dataset("esl")
    """
    contract = _DatasetContract(dataset, root, options)
    if not contract.has_rows:
        layout = contract.cls.card.layout
        raise InputError(f"root: {contract.title} reads files; pass a folder with a few files in its layout: {layout}")
    contract.check()


def dataset_checks(
    dataset: str | type[Dataset], root: str | Path | None = None, **options: Any
) -> dict[str, Callable[[], None]]:
    """Return the rules that apply to a data set, by name; see `check_dataset` for the arguments.

    Without a root, and if no package contains the data, these are the rules of the card and the protocols.

    Example:
        >>> list(dataset_checks("limuc"))
        ['card', 'protocols']
    """
    return _DatasetContract(dataset, root, options).checks()


class _DatasetContract(Contract):
    def __init__(self, dataset: Any, root: str | Path | None, options: dict[str, Any]) -> None:
        if isinstance(dataset, str):
            self.name, self.cls = dataset, DATASETS.get(dataset)
        elif isinstance(dataset, type) and issubclass(dataset, Dataset):
            names = [name for name in DATASETS.names() if DATASETS.get(name) is dataset]
            if not names:
                hint = "decorate it with @DATASETS.register('name')"
                raise InputError(f"dataset: {dataset.__name__} is not registered; {hint}.")
            self.name, self.cls = names[0], dataset
        else:
            raise wrong_type("dataset", "a registered name", dataset, Dataset)
        self.title = f"data set {self.name!r}"
        self.root = None if root is None else Path(root)
        self.options = options

    def make(self) -> Dataset:
        return DATASETS.create(self.name, **self.options)

    def rows(self, dataset: Dataset) -> list[Row]:
        return list(dataset.rows(self.root or dataset.root() or Path()))

    @property
    def has_rows(self) -> bool:
        return self.root is not None or (self.cls.card.package is not None and self.make().root() is not None)

    @Rule("Fill the fields of its Card.")
    def card(self) -> None:
        card = self.cls.card
        empty = [
            name for name in ("title", "licence", "citation", "obtain", "layout") if not getattr(card, name).strip()
        ]
        expect(not empty, f"the card has no {', '.join(empty)}")
        expect(card.kind in CONTENT, f"the kind is {card.kind!r}, expected one of {', '.join(CONTENT)}")
        expect(len(set(card.classes)) == len(card.classes), "the card has a duplicate class")
        expect(
            len(card.classes) != 1,
            "the card has one class, expected at least two, or none if the user's data define them",
        )
        counts = card.classes if card.counts is None else card.counts
        expect(len(counts) == len(card.classes), f"the card has {len(counts)} counts for {len(card.classes)} classes")

    @Rule("Set protocols = {name: protocol}, or use the five folds of the base class.")
    def protocols(self) -> None:
        protocols = self.cls.protocols
        expect(protocols, "there is no protocol")
        for name, protocol in protocols.items():
            expect(protocol.n_splits >= 1, f"the protocol {name!r} has {protocol.n_splits} folds")
        expect(not self.cls.card.paper or "paper" in protocols, "a data set of the paper has no protocol 'paper'")

    @Rule("rows() yields Row(id, label, ...) with one of path, text and features, depending on the kind.", HAS_ROWS)
    def valid_rows(self) -> None:
        dataset = self.make()
        rows = self.rows(dataset)
        expect(rows, "there are no rows")
        content, classes = (
            CONTENT[dataset.card.kind],
            len(dataset.classes),
        )  # after reading: the files may define classes
        columns, ids = list(rows[0].features or ()), set()
        for number, row in enumerate(rows):
            where = f"row {number} ({row.id!r})"
            expect(isinstance(row.id, str) and row.id, f"{where}: the id must be a non-empty string")
            expect(row.id not in ids, f"{where}: duplicate id")
            ids.add(row.id)
            expect(0 <= row.label < classes, f"{where}: the label is {row.label}, expected 0..{classes - 1}")
            filled = [name for name in CONTENT.values() if getattr(row, name) is not None]
            expect(filled == [content], f"{where} has {' and '.join(filled) or 'nothing'}, expected {content} only")
            features = list(row.features or ())
            expect(features == columns, f"{where}: the features are {features}, but {columns} in row 0")
            for name in ("cluster", "split"):
                value = getattr(row, name)
                expect(
                    value is None or isinstance(value, str), f"{where}: {name} is {value!r}, expected a string or None"
                )
        expect(
            len({row.label for row in rows}) > 1, f"all rows have label {rows[0].label}, expected at least two classes"
        )

    @Rule("Sort file listings, and use no random numbers in rows(): orcu creates the folds.", HAS_ROWS)
    def reproducible_rows(self) -> None:
        first, second = self.rows(self.make()), self.rows(self.make())
        expect(len(first) == len(second), f"reading gives {len(first):,} rows, then {len(second):,}")
        for number, (row, again) in enumerate(zip(first, second, strict=True)):
            expect(repr(row) == repr(again), f"row {number} is {row!r}, then {again!r}")  # NaN is not equal to itself

    @Rule("Check the report of `orcu data prepare`; dependent rows need a common Row.cluster.", HAS_ROWS)
    def folds_without_leakage(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            prepared, _ = prepare(self.name, self.root, output=folder, options=self.options)
            expected, rows = len(self.rows(self.make())), len(prepared.manifest)
            expect(rows == expected, f"{rows:,} of {expected:,} rows were prepared")
            clusters = prepared.manifest.column("cluster")
            for name, folds in prepared.protocols().items():
                for fold in range(folds):
                    splits = {"row": [set(rows.tolist()) for rows in prepared.split(name, fold).values()]}
                    if self.cls.protocols[name].by_cluster:
                        splits["cluster"] = [{clusters[row] for row in split} - {None} for split in splits["row"]]
                    for unit, sets in splits.items():
                        disjoint = len(set.union(*sets)) == sum(map(len, sets))
                        expect(disjoint, f"{name}, fold {fold}: a {unit} is in two splits")

    @Rule(
        "Use require_file(path, self.card), which names the file, the layout and how to get the data.",
        lambda contract: contract.root is not None,
    )
    def missing_files(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            empty = Path(folder, "empty")
            empty.mkdir()
            call = partial(prepare, self.name, empty, output=Path(folder, "output"), options=self.options)
            expect_error(call, "empty", "an empty folder")
