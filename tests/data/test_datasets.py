"""Data sets: cards, and rows from small or real files in the layout of the publisher."""

import json

import numpy as np
import pytest

from orcu import data
from orcu.data.catalog.image_aesthetics import nearest_rule
from orcu.data.folds import VALIDATION, Samples
from orcu.errors import InputError, UnknownNameError
from orcu.testing import check_dataset, dataset_checks

PACKAGED = {"lev": 1000, "swd": 1000, "era": 1000, "esl": 488, "fair": 6366, "diamonds": 53940}


LARGE = ("diamonds", "elpv")
RULES = [
    pytest.param(check, id=f"{name}: {rule}", marks=[pytest.mark.slow] if name in LARGE else [])
    for name in data.names()
    for rule, check in dataset_checks(name).items()
]


@pytest.mark.parametrize("check", RULES)
def test_data_set_satisfies_the_contract(check):
    """Without files only the card is checked; tests below check rows of small files."""
    check()


def test_data_sets_of_the_paper_have_its_folds_and_counts():
    expected = {
        "image_aesthetics": (5, 13364),
        "adience": (5, 17423),
        "limuc": (10, 11276),
        "sst5": (1, 11855),
        "diabetic_retinopathy": (5, 88702),
    }
    assert {name for name in data.names() if data.card(name).paper} == set(expected)
    for name, (folds, rows) in expected.items():
        assert data.DATASETS.get(name).protocols["paper"].n_splits == folds
        assert sum(data.card(name).counts) == rows


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_tables_have_the_counts_of_the_card(name, tmp_path):
    prepared, report = data.prepare(name, output=tmp_path / name)
    assert len(prepared.manifest) == PACKAGED[name]
    assert report.counts == list(report.expected)
    split = prepared.split("five_folds", 0)
    assert sum(map(len, split.values())) == PACKAGED[name]


def test_diamonds_has_three_targets(tmp_path):
    diamonds = data.create("diamonds", target="color")
    assert diamonds.classes == ("J", "I", "H", "G", "F", "E", "D")
    row = next(diamonds.rows(tmp_path))
    assert (row.label, row.features["cut"]) == (5, "Ideal")
    with pytest.raises(UnknownNameError, match="Did you mean 'clarity'"):
        data.create("diamonds", target="clarty")


@pytest.mark.slow
def test_elpv_has_the_counts_of_the_card(tmp_path):
    prepared, report = data.prepare("elpv", output=tmp_path / "elpv")
    assert prepared.manifest.counts() == [1508, 295, 106, 715]
    assert not report.bad_images


ADIENCE_HEADER = "user_id\toriginal_image\tface_id\tage\tgender\n"


def test_adience_reads_the_layout_of_the_publisher(tmp_path, image):
    for fold in range(5):
        lines = [f"user{fold}\ta.jpg\t1\t(25, 32)\tm\n", f"user{fold}\tb.jpg\t2\t(0, 2)\tf\n"]
        lines += [f"user{fold}\tb.jpg\t2\t(0, 2)\tf\n", f"user{fold}\tc.jpg\t3\t(25, 23)\tf\n"]
        (tmp_path / f"fold_{fold}_data.txt").write_text(ADIENCE_HEADER + "".join(lines))
        for face, name in ((1, "a"), (2, "b")):
            image(tmp_path / "faces" / f"user{fold}" / f"coarse_tilt_aligned_face.{face}.{name}.jpg")
    prepared, report = data.prepare("adience", tmp_path, output=tmp_path / "out")
    assert prepared.manifest.ids[:3] == ["user0/1.a.jpg", "user0/2.b.jpg", "user0/2.b.jpg#2"]
    assert prepared.manifest.counts() == [10, 0, 0, 0, 5, 0, 0, 0]
    assert report.duplicates == 5
    folds = prepared.manifest.column("split")
    split = prepared.split("fold_for_validation", 3)
    assert {folds[row] for row in split["test"]} == {"3"}
    assert {folds[row] for row in split["validation"]} == {"4"}
    split = prepared.split("paper", 3)  # validation rows are whole clusters of the four other folds
    assert {folds[row] for row in split["test"]} == {"3"}
    assert len({folds[row] for row in split["validation"]}) == 1
    assert {folds[row] for row in split["train"]}.isdisjoint({folds[row] for row in split["validation"]})
    check_dataset("adience", tmp_path)


def test_adience_real_fold_files_have_known_counts(real_data):
    rows = list(data.create("adience").rows(real_data("adience_folds")))
    counts = np.bincount([row.label for row in rows], minlength=8)
    assert counts.tolist() == [2519, 2163, 2132, 1655, 4950, 2300, 830, 875]
    assert sum("#" in row.id for row in rows) == 103  # rows that a file repeats, of the eight groups
    assert len({row.id for row in rows}) == 17424
    aligned = next(data.create("adience", images="aligned").rows(real_data("adience_folds")))
    assert aligned.path.startswith("aligned/30601258@N03/landmark_aligned_face.2.")


def write_limuc_files(root, image, patients=12):
    for part, first in (("train_and_validation_sets", 0), ("test_set", 100)):
        for score in range(4):
            for patient in range(first, first + patients):
                image(root / part / f"Mayo {score}" / f"UC_patient_{patient}_{score + 1}.bmp")


def test_limuc_splits_are_patient_exclusive(tmp_path, image):
    write_limuc_files(tmp_path, image)
    prepared, _ = data.prepare("limuc", tmp_path, output=tmp_path / "out")
    manifest = prepared.manifest
    for fold in range(10):
        split = prepared.split("paper", fold)
        patients = [{manifest.column("cluster")[row] for row in rows} for rows in split.values()]
        assert not (patients[0] & patients[1])
        assert not (patients[0] & patients[2])
        assert not (patients[1] & patients[2])
        assert {manifest.column("split")[row] for row in split["test"]} == {"test"}
    check_dataset("limuc", tmp_path)
    image(tmp_path / "test_set" / "Mayo 0" / "nameless.bmp")
    with pytest.raises(InputError, match=r"nameless\.bmp: "):
        list(data.create("limuc").rows(tmp_path))


def test_limuc_protocol_authors_follows_the_real_lists(real_data, tmp_path, image):
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
    limuc_with_lists = data.create("limuc", lists=str(lists))
    rows = list(limuc_with_lists.rows(tmp_path))
    assert len(rows) == 9590 + 1
    ids, none = [row.id for row in rows], [None] * len(rows)
    samples = Samples(
        ids, np.array([row.label for row in rows]), none, [row.cluster for row in rows], [row.split for row in rows]
    )
    folds, _ = limuc_with_lists.protocols["authors"].split(samples)
    assert len(folds) == 10
    assert (folds[0] == VALIDATION).sum() == sum(map(len, second.values()))
    for splits in folds:
        clusters = [{rows[row].cluster for row in np.flatnonzero(splits == k)} for k in (0, 1)]
        assert not clusters[0] & clusters[1]


def write_beauty_files(root, votes, image):
    lines = ["#flickr_photo_id\tcategory\tbeauty_scores\n"]
    for number, scores in enumerate(votes):
        lines.append(f"{number}\tnature\t{scores}\n")
        image(root / "images" / f"{number}.jpg")
    (root / "beauty-icwsm15-dataset.tsv").write_text("".join(lines))


def test_image_aesthetics_label_is_the_median_vote(tmp_path, image):
    write_beauty_files(tmp_path, ["1,1,5", "2,3,3,4", "4,4,5", "2,3", "3,4"], image)
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
    data.prepare("image_aesthetics", tmp_path, output=tmp_path / "out")
    check_dataset("image_aesthetics", tmp_path, halves="up")
    (tmp_path / "beauty-icwsm15-dataset.tsv").write_text("#flickr_photo_id\tcategory\tbeauty_scores\n7\tnature\t1,6\n")
    with pytest.raises(InputError, match=r"line 2: .*'1,6'"):
        list(data.create("image_aesthetics").rows(tmp_path))
    with pytest.raises(UnknownNameError, match="rule for halves"):
        data.create("image_aesthetics", halves="sideways")


def test_nearest_rule_has_class_shares_nearest_to_the_paper():
    assert nearest_rule([1.5] * 3 + [2.5] * 60 + [3.0] * 30 + [4.0] * 7) == "up"
    assert nearest_rule([3.5] * 60 + [3.0] * 10 + [4.0] * 30) == "down"


def write_retinopathy_files(root, image, *, patients=10):
    pixels = np.zeros((30, 50, 3), dtype=np.uint8)
    for file, folder, first, column in (
        ("trainLabels.csv", "train", 0, ""),
        ("retinopathy_solution.csv", "test", 500, ",Usage"),
    ):
        lines = [f"image,level{column}\n"]
        for patient in range(first, first + patients):
            for eye in ("left", "right"):
                lines.append(f"{patient}_{eye},{patient % 5}{',Public' if column else ''}\n")
                retina = pixels.copy()
                retina[5:25, 10:40] = (patient % 200 + 40, 90, 60 if eye == "left" else 99)
                image(root / folder / f"{patient}_{eye}.jpeg", pixels=retina)
        (root / file).write_text("".join(lines))


def test_diabetic_retinopathy_reads_both_label_files(tmp_path, image):
    write_retinopathy_files(tmp_path, image)
    prepared, report = data.prepare("diabetic_retinopathy", tmp_path, output=tmp_path / "out", size=32)
    manifest = prepared.manifest
    assert manifest.counts() == [8] * 5
    assert manifest.column("cluster")[:2] == ["0", "0"]
    assert any("88,702" in line for line in report.lines())
    assert prepared.protocols() == {"paper": 5, "rotating": 5, "subject_exclusive": 5}
    assert prepared.used_counts("paper") == [8] * 5
    assert prepared.used_counts("official") is None
    for fold in range(5):
        split = prepared.split("subject_exclusive", fold)
        patients = [{manifest.column("cluster")[row] for row in rows} for rows in split.values()]
        assert not (patients[0] & patients[1])
        assert not (patients[0] & patients[2])
        assert not (patients[1] & patients[2])
    # the dark border, three fifths of each image, is cropped before resizing
    assert (prepared.cache(32).images.max(axis=1) < 20).mean() < 0.3
    check_dataset("diabetic_retinopathy", tmp_path)


def test_diabetic_retinopathy_with_aptos_as_second_source(tmp_path, image):
    write_retinopathy_files(tmp_path / "kaggle", image)
    (tmp_path / "aptos").mkdir()
    (tmp_path / "aptos" / "train.csv").write_text("id_code,diagnosis\nabc,4\n")
    image(tmp_path / "aptos" / "train_images" / "abc.png")
    options = {"aptos": str(tmp_path / "aptos")}
    prepared, report = data.prepare(
        "diabetic_retinopathy", tmp_path / "kaggle", output=tmp_path / "out", options=options, size=16
    )
    assert prepared.manifest.counts() == [8, 8, 8, 8, 9]
    assert report.expected is None


def test_aptos_real_duplicates_stay_in_one_split(real_data, tmp_path):
    prepared, report = data.prepare("aptos2019", real_data("aptos2019"), output=tmp_path / "aptos")
    assert report.counts == list(report.expected)
    assert len(report.conflicts) == 30
    contents = prepared.manifest.column("content")
    for fold in range(5):
        splits = [{contents[row] for row in rows} for rows in prepared.split("five_folds", fold).values()]
        assert not (splits[0] & splits[1])
        assert not (splits[0] & splits[2])
        assert not (splits[1] & splits[2])


def test_retinamnist_real_images_are_read_unchanged(real_data, tmp_path):
    prepared, report = data.prepare("retinamnist", real_data("retinamnist"), output=tmp_path / "r", size=28)
    assert report.counts == list(report.expected)
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
    with pytest.raises(InputError, match=r"train\.tsv: line 2: .*'7'"):
        list(data.create("sst5").rows(tmp_path))
    (tmp_path / "train.tsv").unlink()
    (tmp_path / "train.txt").write_text("not a tree\n")
    with pytest.raises(InputError, match=r"train\.txt: line 1: "):
        list(data.create("sst5").rows(tmp_path))


def test_sst5_real_files_have_known_counts(real_data, tmp_path):
    prepared, report = data.prepare("sst5", real_data("sst5"), output=tmp_path / "sst5")
    assert report.counts == list(report.expected)
    assert [len(rows) for rows in prepared.split("paper", 0).values()] == pytest.approx([8298, 1186, 2371], abs=10)
    official = [len(rows) for rows in prepared.split("official", 0).values()]
    assert official == pytest.approx([8544, 1101, 2210], abs=10)
    assert official[2] == 2210


def test_wine_quality_real_files_have_known_counts(real_data, tmp_path):
    _, report = data.prepare("wine_quality", real_data("tabular"), output=tmp_path / "wine", options={"color": "white"})
    assert report.counts == list(report.expected)
    (tmp_path / "winequality-red.csv").write_text('"pH";"quality"\n3.1;11\n')
    with pytest.raises(InputError, match="line 2: .*'11'"):
        list(data.create("wine_quality").rows(tmp_path))


@pytest.mark.parametrize(("source", "rows"), [("tweets", 4200), ("movies", 10605), ("amazon", 3708), ("nyt", 5190)])
def test_vader_real_label_is_the_median_rating(source, rows, real_data):
    texts = list(data.create("vader", source=source).rows(real_data("vader")))
    assert len(texts) == rows
    ratings = texts[0].extra["ratings"]
    assert texts[0].label == sorted(ratings)[(len(ratings) - 1) // 2] + 4
    assert texts[0].text


def test_vader_words_label_is_the_median_rating(tmp_path):
    prepared, report = data.prepare("vader_words", output=tmp_path / "words")
    assert report.counts == list(report.expected)
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
    assert rows[0].extra["ratings"] == [1, 2, 4, 4]
    (tmp_path / "vader_lexicon.txt").write_text("good\t2.0\n")
    with pytest.raises(InputError, match="line 1 .*2 columns, expected 4"):
        list(data.create("vader_words").rows(tmp_path))


def test_folder_reads_classes_and_clusters(class_folders, tmp_path):
    options = {"cluster": r"(patient\d+)_"}
    prepared, _ = data.prepare("folder", class_folders, output=tmp_path / "out", options=options)
    assert prepared.manifest.classes == ("0_none", "1_mild", "2_severe")
    assert prepared.manifest.counts() == [20, 20, 20]
    assert len(set(prepared.manifest.column("cluster"))) == 30
    check_dataset("folder", class_folders, **options)
    (class_folders / "extra").mkdir()
    with pytest.raises(InputError, match="^classes: "):
        list(data.create("folder").rows(class_folders))
    with pytest.raises(InputError, match="'extra'"):
        list(data.create("folder", classes="0_none,1_mild,2_severe").rows(class_folders))
    with pytest.raises(InputError, match="'absent'"):
        list(data.create("folder", classes="0_none,absent").rows(class_folders))
    for wrong in ("[", "patient"):  # not a pattern, no group
        with pytest.raises(InputError, match="^cluster: "):
            data.create("folder", cluster=wrong)
    with pytest.raises(InputError, match=r"\(doctor\)"):
        list(data.create("folder", classes="0_none,1_mild,2_severe,extra", cluster="(doctor)").rows(class_folders))


def test_table_reads_labels_features_and_clusters(tmp_path):
    (tmp_path / "cases.csv").write_text(
        "patient,age,smoker,site,grade\nA,50,yes,n,mild\nA,,no,n,severe\nB,61.5,no,s,none\n"
    )
    options = {"label": "grade", "classes": "none,mild,severe", "cluster": "patient", "drop": "site"}
    prepared, _ = data.prepare("table", tmp_path, output=tmp_path / "out", options=options)
    manifest = prepared.manifest
    assert manifest.labels.tolist() == [1, 2, 0]
    assert manifest.about.features == ["age", "smoker"]
    assert manifest.feature("age") == [50.0, None, 61.5]
    assert manifest.column("cluster") == ["A", "A", "B"]
    check_dataset("table", tmp_path, **options)
    for wrong, message in (
        ({"label": "grad"}, "Did you mean 'grade'"),
        ({"label": "grade"}, "^classes: "),
        ({"label": "grade", "classes": "none,mild"}, "severe"),
        ({"label": "grade", "file": "x.csv"}, r"x\.csv"),
    ):
        with pytest.raises(InputError, match=message):
            list(data.create("table", **wrong).rows(tmp_path))
    (tmp_path / "cases.csv").write_text("a,grade\n1,2\n2,\n")
    with pytest.raises(InputError, match="row 2 "):
        list(data.create("table", label="grade").rows(tmp_path))


def test_texts_reads_a_column_of_texts(tmp_path):
    (tmp_path / "reviews.csv").write_text("review,stars,who\ngood,4,ann\nbad,1,bob\nso so,2,ann\n", encoding="utf-8")
    texts = data.create("texts", label="stars", text="review", cluster="who")
    rows = list(texts.rows(tmp_path))
    assert [(row.text, row.label, row.cluster) for row in rows] == [
        ("good", 2, "ann"),
        ("bad", 0, "bob"),
        ("so so", 1, "ann"),
    ]
    assert texts.classes == ("1", "2", "4")
    assert texts.card.kind == "texts"
    check_dataset("texts", tmp_path, label="stars", text="review", cluster="who")
    with pytest.raises(UnknownNameError, match="column of texts 'text'"):
        list(data.create("texts", label="stars").rows(tmp_path))
    (tmp_path / "reviews.csv").write_text("text,stars\ngood,4\n ,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="row 2 .*'text'"):
        list(data.create("texts", label="stars").rows(tmp_path))
