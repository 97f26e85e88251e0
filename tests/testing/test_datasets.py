"""`check_dataset` says which rule a wrong data set breaks, and refuses what is none."""

import dataclasses
import itertools

import pytest

from orcu.data.base import DATASETS, TABLE, Card, Dataset, Row, need_file
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
        for number, line in enumerate(need_file(root / "grades.txt", self.card).read_text().split()):
            yield Row(str(number), int(line), features={"half": number / 2}, subject=f"pupil {number // 2}")


@pytest.fixture
def registered():
    """Files a class as 'of_a_test' as long as the test runs."""
    yield DATASETS.register("of_a_test")
    DATASETS._things.pop("of_a_test", None)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "grades.txt").write_text("0 1 1 0 " * 5)
    return tmp_path


def test_a_right_data_set_keeps_every_rule(registered, root):
    check_dataset(registered(Grades), root)
    check_dataset("of_a_test", str(root))


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
            yield dataclasses.replace(row, subject=7)


class Shuffled(Grades):
    turns = itertools.count()

    def rows(self, root):
        rows = list(super().rows(root))
        yield from rows if next(self.turns) % 2 else reversed(rows)


class Careless(Grades):
    def rows(self, root):
        if not (root / "grades.txt").exists():
            raise KeyError("grades")
        yield from super().rows(root)


@pytest.mark.parametrize(
    ("cls", "rule", "says"),
    [
        (Doubled, "rows are cases of its classes", r"row 20 \('0'\): the id stands twice"),
        (OneClass, "rows are cases of its classes", "all rows have label 0"),
        (FromOne, "rows are cases of its classes", r"row 1 \('1'\) has label 2, expected 0..1"),
        (Both, "rows are cases of its classes", "has text and features, expected features alone"),
        (Ragged, "rows are cases of its classes", r"row 1 \('1'\) has the features \['1'\], row 0 \['0'\]"),
        (Numbered, "rows are cases of its classes", "has the subject 7, expected a text or None"),
        (Shuffled, "reading twice gives the same rows", "row 0 is Row.*, then Row.*Sort what the file system lists"),
        (FromOne, "it can be prepared and no fold leaks", "it raises InputError: .*has label 2, expected 0..1"),
        (Careless, "missing files are named", "an empty folder raises KeyError.*need_file"),
    ],
)
def test_a_wrong_data_set_is_told_which_rule_it_breaks(cls, rule, says, registered, root):
    registered(cls)
    with pytest.raises(ContractError, match=rf"^data set 'of_a_test': {rule}: .*{says}"):
        dataset_checks("of_a_test", root)[rule]()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"licence": " "}, "its card says nothing under licence"),
        ({"kind": "tables"}, "its kind is 'tables', expected one of images, texts, table"),
        ({"counts": (1, 2, 3)}, "its card has 3 counts for 2 classes"),
        ({"classes": ("low", "low")}, "its card names a class twice"),
        ({"classes": ("low",)}, "its card names one class"),
    ],
)
def test_the_card_is_checked(change, says, registered):
    registered(type("Changed", (Grades,), {"card": dataclasses.replace(CARD, **change)}))
    with pytest.raises(ContractError, match=f"the card is complete: {says}"):
        dataset_checks("of_a_test")["the card is complete"]()


def test_protocols_are_checked(registered):
    registered(type("Without", (Grades,), {"protocols": {}}))
    with pytest.raises(ContractError, match="every protocol has folds: it has no protocol"):
        dataset_checks("of_a_test")["every protocol has folds"]()


def test_what_is_no_data_set_is_refused(registered):
    with pytest.raises(InputError, match="Grades is not registered; put @DATASETS.register"):
        check_dataset(Grades)
    registered(Grades)
    with pytest.raises(
        InputError, match="root: data set 'of_a_test' reads files; give a folder .*grades.txt, a label in"
    ):
        check_dataset("of_a_test")
    with pytest.raises(InputError, match="got an instance of Grades. Hand in its class."):
        check_dataset(Grades())
    with pytest.raises(InputError, match="or a class that derives from orcu.data.Dataset, got dict"):
        check_dataset(dict)
    with pytest.raises(UnknownNameError, match="unknown data set 'of_a_tost'. Did you mean 'of_a_test'"):
        check_dataset("of_a_tost")
