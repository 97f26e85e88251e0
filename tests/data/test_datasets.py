"""Every data set: its card, its rows in the publisher's layout, made small or real."""

import json

import numpy as np
import pytest

from orcu import data
from orcu.data.catalog.image_aesthetics import nearest_rule
from orcu.data.folds import VALIDATION
from orcu.errors import InputError, UnknownNameError
from orcu.testing import check_dataset, dataset_checks

CARRIED = {"lev": 1000, "swd": 1000, "era": 1000, "esl": 488, "fair": 6366, "diamonds": 53940}


LARGE = ("diamonds", "elpv")
RULES = [
    pytest.param(check, id=f"{name}: {rule}", marks=[pytest.mark.slow] if name in LARGE else [])
    for name in data.names()
    for rule, check in dataset_checks(name).items()
]


@pytest.mark.parametrize("check", RULES)
def test_every_set_keeps_the_contract(check):
    """Of sets whose files are not at hand the card; their rows follow below, made small in the publisher's layout."""
    check()


def test_the_papers_sets_have_its_folds_and_counts():
    expected = {
        "image_aesthetics": (5, 13364),
        "adience": (5, 17423),
        "limuc": (10, 11276),
        "sst5": (1, 11855),
        "diabetic_retinopathy": (5, 88702),
    }
    assert {name for name in data.names() if data.card(name).paper} == set(expected)
    for name, (folds, rows) in expected.items():
        assert data.DATASETS.get(name).protocols["paper"].num_folds == folds
        assert sum(data.card(name).counts) == rows


@pytest.mark.parametrize("name", CARRIED)
def test_tables_that_packages_carry(name, tmp_path):
    prepared, found = data.prepare(name, out=tmp_path / name)
    assert len(prepared.manifest) == CARRIED[name]
    assert "counts as on the card" in found.lines()
    split = prepared.split("five_folds", 0)
    assert sum(map(len, split.values())) == CARRIED[name]


def test_diamonds_has_three_targets(tmp_path):
    made = data.create("diamonds", target="color")
    assert made.classes == ("J", "I", "H", "G", "F", "E", "D")
    row = next(made.rows(tmp_path))
    assert (row.label, row.features["cut"]) == (5, "Ideal")
    with pytest.raises(UnknownNameError, match="Did you mean 'clarity'"):
        data.create("diamonds", target="clarty")


def test_elpv(tmp_path):
    prepared, found = data.prepare("elpv", out=tmp_path / "elpv")
    assert prepared.manifest.counts() == [1508, 295, 106, 715]
    assert not found.bad


ADIENCE_HEADER = "user_id\toriginal_image\tface_id\tage\tgender\n"


def test_adience_in_its_publishers_layout(tmp_path, image):
    for fold in range(5):
        lines = [f"user{fold}\ta.jpg\t1\t(25, 32)\tm\n", f"user{fold}\tb.jpg\t2\t(0, 2)\tf\n"]
        lines += [f"user{fold}\tb.jpg\t2\t(0, 2)\tf\n", f"user{fold}\tc.jpg\t3\t(25, 23)\tf\n"]
        (tmp_path / f"fold_{fold}_data.txt").write_text(ADIENCE_HEADER + "".join(lines))
        for face, name in ((1, "a"), (2, "b")):
            image(tmp_path / "faces" / f"user{fold}" / f"coarse_tilt_aligned_face.{face}.{name}.jpg")
    prepared, found = data.prepare("adience", tmp_path, out=tmp_path / "out")
    assert prepared.manifest.ids[:3] == ["user0/1.a.jpg", "user0/2.b.jpg", "user0/2.b.jpg#2"]
    assert prepared.manifest.counts() == [10, 0, 0, 0, 5, 0, 0, 0]
    assert found.doubles == 5
    folds = prepared.manifest.column("split")
    split = prepared.split("fold_for_validation", 3)
    assert {folds[row] for row in split["test"]} == {"3"}
    assert {folds[row] for row in split["validation"]} == {"4"}
    split = prepared.split("paper", 3)  # validation is cut from the four other folds, whole subjects
    assert {folds[row] for row in split["test"]} == {"3"}
    assert len({folds[row] for row in split["validation"]}) == 1
    assert {folds[row] for row in split["train"]}.isdisjoint({folds[row] for row in split["validation"]})
    check_dataset("adience", tmp_path)


def test_adience_real_fold_files(real_data):
    rows = list(data.create("adience").rows(real_data("adience_folds")))
    counts = np.bincount([row.label for row in rows], minlength=8)
    assert counts.tolist() == [2519, 2163, 2132, 1655, 4950, 2300, 830, 875]
    assert sum("#" in row.id for row in rows) == 103  # rows that a file repeats, of the eight groups
    assert len({row.id for row in rows}) == 17424
    aligned = next(data.create("adience", images="aligned").rows(real_data("adience_folds")))
    assert aligned.path.startswith("aligned/30601258@N03/landmark_aligned_face.2.")


def limuc(root, image, patients=12):
    for part, first in (("train_and_validation_sets", 0), ("test_set", 100)):
        for score in range(4):
            for patient in range(first, first + patients):
                image(root / part / f"Mayo {score}" / f"UC_patient_{patient}_{score + 1}.bmp")


def test_limuc_in_its_publishers_layout(tmp_path, image):
    limuc(tmp_path, image)
    prepared, _ = data.prepare("limuc", tmp_path, out=tmp_path / "out")
    manifest = prepared.manifest
    for fold in range(10):
        split = prepared.split("paper", fold)
        patients = [{manifest.column("subject")[row] for row in rows} for rows in split.values()]
        assert not (patients[0] & patients[1])
        assert not (patients[0] & patients[2])
        assert not (patients[1] & patients[2])
        assert {manifest.column("split")[row] for row in split["test"]} == {"test"}
    check_dataset("limuc", tmp_path)
    image(tmp_path / "test_set" / "Mayo 0" / "nameless.bmp")
    with pytest.raises(InputError, match="holds no patient"):
        list(data.create("limuc").rows(tmp_path))


def test_limuc_real_lists_of_its_authors(real_data, tmp_path, image):
    lists = real_data("limuc_folds")
    first = json.loads((lists / "fold_0" / "train.json").read_text())
    second = json.loads((lists / "fold_0" / "val.json").read_text())
    for listed in (first, second):
        for score, names in listed.items():
            for name in names:
                path = tmp_path / "train_and_validation_sets" / score / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
    for score in first:
        (tmp_path / "test_set" / score).mkdir(parents=True)
    (tmp_path / "test_set" / "Mayo 0" / "UC_patient_9999_1.bmp").touch()
    made = data.create("limuc", lists=str(lists))
    rows = list(made.rows(tmp_path))
    assert len(rows) == 9590 + 1
    from orcu.data.folds import Cases

    ids, none = [row.id for row in rows], [None] * len(rows)
    cases = Cases(
        ids, np.array([row.label for row in rows]), none, [row.subject for row in rows], [row.split for row in rows]
    )
    folds, _ = made.protocols["authors"].folds(cases)
    assert len(folds) == 10
    assert (folds[0] == VALIDATION).sum() == sum(map(len, second.values()))
    for splits in folds:
        people = [{rows[row].subject for row in np.flatnonzero(splits == k)} for k in (0, 1)]
        assert not people[0] & people[1]


def beauty(root, votes, image):
    lines = ["#flickr_photo_id\tcategory\tbeauty_scores\n"]
    for number, given in enumerate(votes):
        lines.append(f"{number}\tnature\t{given}\n")
        image(root / "images" / f"{number}.jpg")
    (root / "beauty-icwsm15-dataset.tsv").write_text("".join(lines))


def test_image_aesthetics_takes_the_median(tmp_path, image):
    beauty(tmp_path, ["1,1,5", "2,3,3,4", "4,4,5", "2,3", "3,4"], image)
    labels = {
        rule: [row.label for row in data.create("image_aesthetics", halves=rule).rows(tmp_path)]
        for rule in ("down", "up", "even", "middle")
    }
    assert labels == {
        "down": [0, 2, 3, 1, 2],
        "up": [0, 2, 3, 2, 3],
        "even": [0, 2, 3, 1, 3],
        "middle": [0, 2, 3, 2, 2],
    }
    data.prepare("image_aesthetics", tmp_path, out=tmp_path / "out")
    check_dataset("image_aesthetics", tmp_path, halves="up")
    (tmp_path / "beauty-icwsm15-dataset.tsv").write_text("#flickr_photo_id\tcategory\tbeauty_scores\n7\tnature\t1,6\n")
    with pytest.raises(InputError, match="7 has a vote outside 1..5"):
        list(data.create("image_aesthetics").rows(tmp_path))
    with pytest.raises(UnknownNameError, match="rule for halves"):
        data.create("image_aesthetics", halves="sideways")


def test_the_rule_for_halves_is_the_nearest_to_the_papers_counts():
    assert nearest_rule([1.5] * 3 + [2.5] * 60 + [3.0] * 30 + [4.0] * 7) == "up"
    assert nearest_rule([3.5] * 60 + [3.0] * 10 + [4.0] * 30) == "down"


def retinopathy(root, image, *, patients=10):
    pixels = np.zeros((30, 50, 3), dtype=np.uint8)
    for file, folder, first, column in (
        ("trainLabels.csv", "train", 0, ""),
        ("retinopathy_solution.csv", "test", 500, ",Usage"),
    ):
        lines = [f"image,level{column}\n"]
        for patient in range(first, first + patients):
            for eye in ("left", "right"):
                lines.append(f"{patient}_{eye},{patient % 5}{',Public' if column else ''}\n")
                one = pixels.copy()
                one[5:25, 10:40] = (patient % 200 + 40, 90, 60 if eye == "left" else 99)
                image(root / folder / f"{patient}_{eye}.jpeg", pixels=one)
        (root / file).write_text("".join(lines))


def test_diabetic_retinopathy_joins_both_label_files(tmp_path, image):
    retinopathy(tmp_path, image)
    prepared, found = data.prepare("diabetic_retinopathy", tmp_path, out=tmp_path / "out", size=32)
    manifest = prepared.manifest
    assert manifest.counts() == [8] * 5
    assert manifest.column("subject")[:2] == ["0", "0"]
    assert any("against the card's 88,702" in line for line in found.lines())
    assert prepared.protocols() == {"paper": 5, "rotating": 5, "subject_exclusive": 5}
    assert prepared.used_counts("paper") == [8] * 5
    assert prepared.used_counts("official") is None
    for fold in range(5):
        split = prepared.split("subject_exclusive", fold)
        people = [{manifest.column("subject")[row] for row in rows} for rows in split.values()]
        assert not (people[0] & people[1])
        assert not (people[0] & people[2])
        assert not (people[1] & people[2])
    # the black surround, three fifths of each picture, is cut off before resizing
    assert (prepared.cache(32).images.max(axis=1) < 20).mean() < 0.3
    check_dataset("diabetic_retinopathy", tmp_path)


def test_aptos_joins_as_a_second_source(tmp_path, image):
    retinopathy(tmp_path / "kaggle", image)
    (tmp_path / "aptos").mkdir()
    (tmp_path / "aptos" / "train.csv").write_text("id_code,diagnosis\nabc,4\n")
    image(tmp_path / "aptos" / "train_images" / "abc.png")
    options = {"aptos": str(tmp_path / "aptos")}
    prepared, found = data.prepare(
        "diabetic_retinopathy", tmp_path / "kaggle", out=tmp_path / "out", options=options, size=16
    )
    assert prepared.manifest.counts() == [8, 8, 8, 8, 9]
    assert found.expected is None


def test_aptos_real(real_data, tmp_path):
    prepared, found = data.prepare("aptos2019", real_data("aptos2019"), out=tmp_path / "aptos")
    assert "counts as on the card" in found.lines()
    assert len(found.conflicts) == 30
    contents = prepared.manifest.column("content")
    for fold in range(5):
        sides = [{contents[row] for row in rows} for rows in prepared.split("five_folds", fold).values()]
        assert not (sides[0] & sides[1])
        assert not (sides[0] & sides[2])
        assert not (sides[1] & sides[2])


def test_retinamnist_real(real_data, tmp_path):
    prepared, found = data.prepare("retinamnist", real_data("retinamnist"), out=tmp_path / "r", size=28)
    assert "counts as on the card" in found.lines()
    assert [len(rows) for rows in prepared.split("official", 0).values()] == [1080, 120, 400]
    with np.load(real_data("retinamnist") / "retinamnist.npz") as archive:
        assert (prepared.cache(28).images[:1080] == archive["train_images"].transpose(0, 3, 1, 2)).all()


def test_sst5_reads_trees_and_tables(tmp_path):
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.txt").write_text(
            f"(3 (2 It) (4 (2 {part}) (3 (2 -LRB-) (3 works))))\n(0 (1 bad) (2 {part}))\n"
        )
    rows = list(data.create("sst5").rows(tmp_path))
    assert (rows[0].label, rows[0].text, rows[0].split) == (3, "It train ( works", "train")
    check_dataset("sst5", tmp_path)
    (tmp_path / "train.tsv").write_text("label\ttext\n4\tsplendid\n")
    rows = list(data.create("sst5").rows(tmp_path))
    assert (rows[0].label, rows[0].text) == (4, "splendid")
    (tmp_path / "train.tsv").write_text("label\ttext\n7\tsplendid\n")
    with pytest.raises(InputError, match=r"line 1: the label '7' is none of 0, 1, 2, 3, 4"):
        list(data.create("sst5").rows(tmp_path))
    (tmp_path / "train.tsv").unlink()
    (tmp_path / "train.txt").write_text("no tree\n")
    with pytest.raises(InputError, match="line 1 is no tree"):
        list(data.create("sst5").rows(tmp_path))


def test_sst5_real(real_data, tmp_path):
    prepared, found = data.prepare("sst5", real_data("sst5"), out=tmp_path / "sst5")
    assert "counts as on the card" in found.lines()
    assert [len(rows) for rows in prepared.split("paper", 0).values()] == pytest.approx([8298, 1186, 2371], abs=10)
    official = [len(rows) for rows in prepared.split("official", 0).values()]
    assert official == pytest.approx([8544, 1101, 2210], abs=10)
    assert official[2] == 2210


def test_wine_quality_real(real_data, tmp_path):
    _, found = data.prepare("wine_quality", real_data("tabular"), out=tmp_path / "wine", options={"color": "white"})
    assert "counts as on the card" in found.lines()
    (tmp_path / "winequality-red.csv").write_text('"pH";"quality"\n3.1;11\n')
    with pytest.raises(InputError, match="line 2: the label '11'"):
        list(data.create("wine_quality").rows(tmp_path))


@pytest.mark.parametrize(("source", "rows"), [("tweets", 4200), ("movies", 10605), ("amazon", 3708), ("nyt", 5190)])
def test_vader_real(source, rows, real_data):
    found = list(data.create("vader", source=source).rows(real_data("vader")))
    assert len(found) == rows
    ratings = found[0].more["ratings"]
    assert found[0].label == sorted(ratings)[(len(ratings) - 1) // 2] + 4
    assert found[0].text


def test_vader_words(tmp_path):
    prepared, found = data.prepare("vader_words", out=tmp_path / "words")
    assert "counts as on the card" in found.lines()
    assert prepared.manifest.counts() == [676, 1824, 1373, 860, 1147, 1359, 281]
    (tmp_path / "vader_lexicon.txt").write_text(
        "good\t2.0\t0.5\t[1, 2, 4, 4]\nvile\t-4\t0\t[-4, -4]\ngood\t0\t0\t[0]\n"
    )
    rows = list(data.create("vader_words").rows(tmp_path))
    assert [(row.id, row.text, row.label) for row in rows] == [
        ("good", "good", 5),
        ("vile", "vile", 0),
        ("good#2", "good", 3),
    ]
    assert rows[0].more["ratings"] == [1, 2, 4, 4]
    (tmp_path / "vader_lexicon.txt").write_text("good\t2.0\n")
    with pytest.raises(InputError, match="line 1 has 2 columns, expected 4"):
        list(data.create("vader_words").rows(tmp_path))


def test_folder_of_your_own(class_folders, tmp_path):
    options = {"subject": r"(patient\d+)_"}
    prepared, _ = data.prepare("folder", class_folders, out=tmp_path / "out", options=options)
    assert prepared.manifest.classes == ("0_none", "1_mild", "2_severe")
    assert prepared.manifest.counts() == [20, 20, 20]
    assert len(set(prepared.manifest.column("subject"))) == 30
    check_dataset("folder", class_folders, **options)
    (class_folders / "extra").mkdir()
    with pytest.raises(InputError, match="order cannot be told from the alphabet"):
        list(data.create("folder").rows(class_folders))
    with pytest.raises(InputError, match="'extra' is none of the classes"):
        list(data.create("folder", classes="0_none,1_mild,2_severe").rows(class_folders))
    with pytest.raises(InputError, match="no folder 'absent'"):
        list(data.create("folder", classes="0_none,absent").rows(class_folders))
    for wrong, message in (("[", "no regular expression"), ("patient", "needs a group")):
        with pytest.raises(InputError, match=message):
            data.create("folder", subject=wrong)
    with pytest.raises(InputError, match="finds no subject"):
        list(data.create("folder", classes="0_none,1_mild,2_severe,extra", subject="(doctor)").rows(class_folders))


def test_table_of_your_own(tmp_path):
    (tmp_path / "cases.csv").write_text(
        "patient,age,smoker,site,grade\nA,50,yes,n,mild\nA,,no,n,severe\nB,61.5,no,s,none\n"
    )
    options = {"label": "grade", "classes": "none,mild,severe", "subject": "patient", "drop": "site"}
    prepared, _ = data.prepare("table", tmp_path, out=tmp_path / "out", options=options)
    manifest = prepared.manifest
    assert manifest.labels.tolist() == [1, 2, 0]
    assert manifest.about.features == ["age", "smoker"]
    assert manifest.feature("age") == [50.0, None, 61.5]
    assert manifest.column("subject") == ["A", "A", "B"]
    check_dataset("table", tmp_path, **options)
    for wrong, message in (
        ({"label": "grad"}, "Did you mean 'grade'"),
        ({"label": "grade"}, "cannot be told from the alphabet"),
        ({"label": "grade", "classes": "none,mild"}, "severe"),
        ({"label": "grade", "file": "x.csv"}, "there is no such file"),
    ):
        with pytest.raises(InputError, match=message):
            list(data.create("table", **wrong).rows(tmp_path))
    (tmp_path / "cases.csv").write_text("a,grade\n1,2\n2,\n")
    with pytest.raises(InputError, match="row 2 has no label"):
        list(data.create("table", label="grade").rows(tmp_path))


def test_your_own_texts_come_from_a_column(tmp_path):
    (tmp_path / "reviews.csv").write_text("review,stars,who\ngood,4,ann\nbad,1,bob\nso so,2,ann\n", encoding="utf-8")
    made = data.create("texts", label="stars", text="review", subject="who")
    rows = list(made.rows(tmp_path))
    assert [(row.text, row.label, row.subject) for row in rows] == [
        ("good", 2, "ann"),
        ("bad", 0, "bob"),
        ("so so", 1, "ann"),
    ]
    assert made.classes == ("1", "2", "4")
    assert made.card.kind == "texts"
    check_dataset("texts", tmp_path, label="stars", text="review", subject="who")
    with pytest.raises(UnknownNameError, match="column of texts 'text'"):
        list(data.create("texts", label="stars").rows(tmp_path))
    (tmp_path / "reviews.csv").write_text("text,stars\ngood,4\n ,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="row 2 has no text in column 'text'"):
        list(data.create("texts", label="stars").rows(tmp_path))
