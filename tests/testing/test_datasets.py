"""`check_dataset`: broken rules and invalid arguments."""

import dataclasses
import itertools

import pytest

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row, require_file
from orcu.errors import InputError, UnknownNameError
from orcu.testing import ContractError, check_dataset, dataset_checks

CARD = Card(
    title="Grades",
    kind=TABLE,
    classes=("low", "high"),
    counts=None,
    licence="ours",
    citation="our own",
    obtain="Ask us.",
    layout="grades.txt, a label in each line.",
)


class Grades(Dataset):
    card = CARD

    def rows(self, root):
        for number, line in enumerate(require_file(root / "grades.txt", self.card).read_text().split()):
            yield Row(str(number), int(line), features={"half": number / 2}, cluster=f"pupil {number // 2}")


@pytest.fixture
def registered():
    """Registers a class as 'example' during a test."""
    yield DATASETS.register("example")
    DATASETS._components.pop("example", None)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "grades.txt").write_text("0 1 1 0 " * 5)
    return tmp_path


def test_check_dataset_valid_data_set_passes(registered, root):
    check_dataset(registered(Grades), root)
    check_dataset("example", str(root))


class Doubled(Grades):
    def rows(self, root):
        yield from itertools.chain(super().rows(root), super().rows(root))


class OneClass(Grades):
    def rows(self, root):
        for row in super().rows(root):
            yield dataclasses.replace(row, label=0)


class FromOne(Grades):
    def rows(self, root):
        for row in super().rows(root):
            yield dataclasses.replace(row, label=row.label + 1)


class Both(Grades):
    def rows(self, root):
        for row in super().rows(root):
            yield dataclasses.replace(row, text="a text")


class Ragged(Grades):
    def rows(self, root):
        for row in super().rows(root):
            yield dataclasses.replace(row, features={row.id: 1.0})


class Numbered(Grades):
    def rows(self, root):
        for row in super().rows(root):
            yield dataclasses.replace(row, cluster=7)


class Shuffled(Grades):
    calls = itertools.count()

    def rows(self, root):
        rows = list(super().rows(root))
        yield from rows if next(self.calls) % 2 else reversed(rows)


class Careless(Grades):
    def rows(self, root):
        if not (root / "grades.txt").exists():
            raise KeyError("grades")
        yield from super().rows(root)


@pytest.mark.parametrize(
    ("cls", "rule", "details"),
    [
        (Doubled, "valid rows", r"row 20 \('0'\): duplicate id"),
        (OneClass, "valid rows", "label 0"),
        (FromOne, "valid rows", r"row 1 \('1'\): .* 2, expected 0..1"),
        (Both, "valid rows", "text and features, expected features"),
        (Ragged, "valid rows", r"row 1 \('1'\): .*\['1'\].*\['0'\] in row 0"),
        (Numbered, "valid rows", "cluster is 7"),
        (Shuffled, "reproducible rows", "row 0 is Row.*, then Row"),
        (FromOne, "folds without leakage", "InputError: .* label 2, expected 0..1"),
        (Careless, "missing files", "KeyError.*require_file"),
    ],
)
def test_dataset_checks_name_the_broken_rule(cls, rule, details, registered, root):
    registered(cls)
    with pytest.raises(ContractError, match=rf"^data set 'example': {rule}: .*{details}"):
        dataset_checks("example", root)[rule]()


@pytest.mark.parametrize(
    ("change", "details"),
    [
        ({"licence": " "}, "licence"),
        ({"kind": "tables"}, "'tables', expected one of images, texts, table"),
        ({"counts": (1, 2, 3)}, "3 counts for 2 classes"),
        ({"classes": ("low", "low")}, "duplicate class"),
        ({"classes": ("low",)}, "one class"),
    ],
)
def test_dataset_checks_invalid_card(change, details, registered):
    registered(type("Changed", (Grades,), {"card": dataclasses.replace(CARD, **change)}))
    with pytest.raises(ContractError, match=f": card: .*{details}"):
        dataset_checks("example")["card"]()


def test_dataset_checks_without_protocols(registered):
    registered(type("Without", (Grades,), {"protocols": {}}))
    with pytest.raises(ContractError, match=": protocols: "):
        dataset_checks("example")["protocols"]()


def test_check_dataset_invalid_argument_raises(registered):
    with pytest.raises(InputError, match="^dataset: Grades .*@DATASETS.register"):
        check_dataset(Grades)
    registered(Grades)
    with pytest.raises(InputError, match="^root: data set 'example' .*grades.txt"):
        check_dataset("example")
    with pytest.raises(InputError, match="^dataset: .* instance of Grades"):
        check_dataset(Grades())
    with pytest.raises(InputError, match=r"^dataset: .*orcu\.data\.Dataset, got dict"):
        check_dataset(dict)
    with pytest.raises(UnknownNameError, match="'exampel'.*'example'"):
        check_dataset("exampel")
