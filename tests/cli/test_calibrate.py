"""``orcu calibrate`` and ``orcu sets``."""

import json

import numpy as np
import pandas as pd
import pytest
from command import assert_data_error, assert_usage_error, plain, run

from orcu import Predictions, metrics
from orcu.calibrators import UnimodalProjection

CLASSES = ["none", "mild", "moderate", "severe"]
BASIC = ("--label", "grade", "--logits", "z_*")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    rng = np.random.default_rng(0)
    sizes = (("val", 500, 4), ("test", 800, 4), ("spare", 400, 4), ("small_val", 100, 3), ("small_test", 100, 3))
    for name, rows, size in sizes:
        logits = -((np.arange(size) - rng.uniform(-0.5, size - 0.5, size=(rows, 1))) ** 2)
        logits += rng.normal(scale=0.4, size=logits.shape)
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        y = (rng.random((rows, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
        data = pd.DataFrame(3 * logits, columns=[f"z_{c}" for c in CLASSES[:size]])
        data["grade"], data["image"] = np.array(CLASSES)[y], [f"{name}{i}" for i in range(rows)]
        data.to_parquet(folder / f"{name}.parquet")
    return folder


def test_calibrate_fit_and_apply_improve_the_predictions(folder):
    result = run(
        "calibrate", "fit", "val.parquet", *BASIC, "--calibrator", "gap+projection", "-o", "gap.json", cwd=folder
    )
    assert result.returncode == 0, result.stderr
    assert "optimistically biased" in result.stdout
    assert json.loads((folder / "gap.json").read_text())["classes"] == CLASSES
    result = run(
        "calibrate", "apply", "test.parquet", "gap.json", *BASIC, "--id", "image", "-o", "out.parquet", cwd=folder
    )
    assert result.returncode == 0, result.stderr
    before = Predictions.read(folder / "test.parquet", label="grade", logits="z_*")
    after = Predictions.read(folder / "out.parquet")
    assert metrics.nll(logits=after.logits, y=after.y) < metrics.nll(logits=before.logits, y=before.y) - 0.1
    assert metrics.unimodality(after.probs) == 1
    assert after.ids[0] == "test0"
    assert after.history[0]["method"] == "chain"
    result = run("evaluate", "out.parquet", "--n-resamples", "50", cwd=folder)
    assert result.returncode == 0, result.stderr


def test_calibrate_subgroup_corrects_each_subgroup(folder):
    for name in ("val", "test"):
        data = pd.read_parquet(folder / f"{name}.parquet")
        data["site"] = np.where(np.arange(len(data)) % 2, "the northern hospital", "the southern clinic")
        columns = [column for column in data if column.startswith("z_")]
        data.loc[data["site"] == "the southern clinic", columns] /= 3
        data.to_parquet(folder / f"sites_{name}.parquet")
    options = (*BASIC, "--subgroup", "site")
    result = run("evaluate", "sites_test.parquet", *options, "--n-resamples", "50", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "orcu calibrate fit --subgroup" in plain(result.stdout)
    assert "the northern hospital  400" in result.stdout  # names are not cut in a narrow terminal
    fitted = run("calibrate", "fit", "sites_val.parquet", *options, "-o", "sites.json", cwd=folder)
    assert fitted.returncode == 0, fitted.stderr
    for words in ("the northern hospital", "the southern clinic", "auto, by subgroup"):
        assert words in fitted.stdout
    applied = ("calibrate", "apply", "sites_test.parquet", "sites.json", *BASIC)
    assert_data_error(run(*applied, "-o", "sites_out.parquet", cwd=folder), "--subgroup")
    result = run(*applied, "--subgroup", "site", "-o", "sites_out.parquet", cwd=folder)
    assert result.returncode == 0, result.stderr
    after = Predictions.read(folder / "sites_out.parquet")
    for site in set(after.subgroup.tolist()):
        rows = after.subgroup == site
        assert abs(metrics.overconfidence(after.probs[rows], after.labels[rows])) < 0.07


def test_calibrate_apply_needs_no_labels(folder):
    data = pd.read_parquet(folder / "test.parquet").drop(columns="grade")
    data.to_csv(folder / "new.csv", index=False)
    run("calibrate", "fit", "val.parquet", *BASIC, "--calibrator", "temperature", "-o", "t.json", cwd=folder)
    result = run("calibrate", "apply", "new.csv", "t.json", "--logits", "z_*", "-o", "new_out.csv", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "label" not in pd.read_csv(folder / "new_out.csv").columns
    result = run("calibrate", "fit", "new.csv", "--logits", "z_*", "-o", "x.json", cwd=folder)
    assert_data_error(result, "--label")
    assert not (folder / "x.json").exists()


def test_calibrate_apply_accepts_an_unfitted_projection(folder):
    UnimodalProjection().save(folder / "p.json")
    result = run("calibrate", "apply", "test.parquet", "p.json", *BASIC, "-o", "shaped.parquet", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert metrics.unimodality(Predictions.read(folder / "shaped.parquet").probs) == 1


@pytest.mark.slow
def test_calibrate_compare_prints_all_calibrators_and_writes_a_report(folder):
    files = ("small_val.parquet", "--test", "small_test.parquet", *BASIC)
    result = run("calibrate", "compare", *files, "--report", "c.html", cwd=folder)
    assert result.returncode == 0, result.stderr
    for name in ("none", "temperature", "vector", "dirichlet", "ordinal_dirichlet", "gap", "gap+projection"):
        assert name in result.stdout
    assert "small_val.parquet, evaluated on small_test.parquet" in result.stdout
    assert "chosen on small_val.parquet" in result.stdout
    assert "<svg" in (folder / "c.html").read_text()


def test_sets_reach_their_coverage_and_refuse_reused_rows(folder):
    run("calibrate", "fit", "val.parquet", *BASIC, "-o", "gap2.json", cwd=folder)
    for name in ("val", "test", "spare"):
        run("calibrate", "apply", f"{name}.parquet", "gap2.json", *BASIC, "-o", f"{name}_cal.parquet", cwd=folder)
    assert_data_error(run("sets", "fit", "val_cal.parquet", "-o", "s.json", cwd=folder), "500 of the 500 rows")
    result = run("sets", "fit", "spare_cal.parquet", "--alpha", "0.1", "-o", "s.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    result = run("sets", "apply", "test_cal.parquet", "s.json", "-o", "sets.csv", cwd=folder)
    assert result.returncode == 0, result.stderr
    coverage = float(result.stdout.split("coverage ")[1].split("%")[0])
    assert 85 < coverage < 97
    sets = pd.read_csv(folder / "sets.csv")
    assert len(sets) == 800
    index = {name: k for k, name in enumerate(CLASSES)}
    assert (sets["set_high"].map(index) - sets["set_low"].map(index) + 1 == sets["set_size"]).all()
    assert_data_error(run("sets", "apply", "spare_cal.parquet", "s.json", "-o", "x.csv", cwd=folder), "400 of the 400")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["calibrate", "fit", "val.parquet", *BASIC, "--calibrator", "gapp", "-o", "x.json"], ["'gapp'", "'gap'"]),
        (["calibrate", "fit", "absent.parquet", *BASIC, "-o", "x.json"], ["absent.parquet:"]),
        (["calibrate", "fit", "val.parquet", *BASIC, "-o", "val.parquet"], ["val.parquet:", "input"]),
        (["calibrate", "compare", "val.parquet", *BASIC, "--report", "x.html"], ["--report:", "--test"]),
        (["calibrate", "fit", "val.parquet", *BASIC], ["--output"]),
        (["sets", "fit", "val.parquet", *BASIC, "--alpha", "0.9", "-o", "x.json"], ["--alpha"]),
    ],
)
def test_calibrate_usage_errors(arguments, words, folder):
    assert_usage_error(run(*arguments, cwd=folder), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["calibrate", "apply", "test.parquet", "val.parquet", *BASIC, "-o", "x.csv"], ["val.parquet", "JSON"]),
        (["calibrate", "compare", "val.parquet", "--test", "val.parquet", *BASIC], ["500 of the 500 rows"]),
    ],
)
def test_calibrate_data_errors(arguments, words, folder):
    assert_data_error(run(*arguments, cwd=folder), *words)


def test_calibrate_apply_refuses_other_classes(folder):
    run("calibrate", "fit", "val.parquet", *BASIC, "--calibrator", "temperature", "-o", "t2.json", cwd=folder)
    data = pd.read_parquet(folder / "test.parquet").rename(columns={"z_none": "z_well"}).drop(columns="grade")
    data.to_parquet(folder / "other.parquet")
    result = run("calibrate", "apply", "other.parquet", "t2.json", "--logits", "z_*", "-o", "x.csv", cwd=folder)
    assert_data_error(result, "other.parquet:", "well, mild, moderate, severe", "t2.json")


def test_sets_fit_calibrator_file_refuses_its_rows_in_a_csv(folder):
    named = (*BASIC, "--id", "image")
    run("calibrate", "fit", "val.parquet", *named, "--calibrator", "temperature", "-o", "t2.json", cwd=folder)
    applied = run("calibrate", "apply", "val.parquet", "t2.json", *named, "-o", "v.csv", cwd=folder)
    assert "orcu sets fit --calibrator-file" in plain(applied.stdout)
    result = run("sets", "fit", "v.csv", *named, "--calibrator-file", "t2.json", "-o", "s2.json", cwd=folder)
    assert_data_error(result, "500 of the 500 rows", "'val0'")


def test_sets_fit_names_an_unknown_id_column(folder):
    run("calibrate", "fit", "val.parquet", *BASIC, "--calibrator", "temperature", "-o", "t3.json", cwd=folder)
    run("calibrate", "apply", "spare.parquet", "t3.json", *BASIC, "-o", "s3.parquet", cwd=folder)
    assert_data_error(run("sets", "fit", "s3.parquet", "--id", "nonsense", "-o", "s3.json", cwd=folder), "'nonsense'")


VISITS = ("--label", "grade", "--probs", "p_*", "--classes", "none,mild,severe", "--id", "visit")


@pytest.fixture
def visits(tmp_path):
    """Two CSV files as a hospital writes them: semicolons, decimal commas, empty labels, other columns, odd ids."""
    rng = np.random.default_rng(3)
    for name in ("fit", "test"):
        lines = ["visit;date;grade;p_none;p_mild;p_severe;site;note"]
        for row in range(300):
            probs = rng.dirichlet([1.0, 1.0, 1.0])
            grade = ["none", "mild", "severe"][rng.choice(3, p=probs**0.5 / (probs**0.5).sum())]
            cells = [f"{probs[0]:.3f}", f"{probs[1]:.3f}", f"{1 - probs[0].round(3) - probs[1].round(3):.3f}"]
            grade = "" if row % 10 == 3 else grade
            numbers = ";".join(cells).replace(".", ",")
            lines.append(f'{name}{row:04d};31.12.2026;{grade};{numbers};{"NS"[row % 2]};"x;{row}"')
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def _cells(path):
    return pd.read_csv(path, sep=";", dtype=str, keep_default_na=False)


def test_calibrate_apply_csv_keeps_rows_columns_and_names_and_replaces_probabilities(visits):
    fit = run("calibrate", "fit", "fit.csv", *VISITS, "--unlabelled", "skip", "-o", "c.json", cwd=visits)
    assert fit.returncode == 0, fit.stderr
    assert "30 of 300 rows have no label and are skipped" in plain(fit.stdout)
    result = run("calibrate", "apply", "test.csv", "c.json", *VISITS, "-o", "calibrated.csv", cwd=visits)
    assert result.returncode == 0, result.stderr
    before, after = _cells(visits / "test.csv"), _cells(visits / "calibrated.csv")
    assert list(after) == [*before, "calibrated_by"]
    probabilities = ["p_none", "p_mild", "p_severe"]
    pd.testing.assert_frame_equal(after[before.columns.drop(probabilities)], before.drop(columns=probabilities))
    values = after[probabilities].apply(lambda column: column.str.replace(",", ".").astype(float))
    np.testing.assert_allclose(values.sum(axis=1), 1)
    assert not np.allclose(values["p_none"], before["p_none"].str.replace(",", ".").astype(float), atol=0.01)
    result = run(
        "evaluate", "calibrated.csv", "--compare", "test.csv", *VISITS, "--unlabelled", "skip", "--n-resamples", "200",
        cwd=visits,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "calibrated minus test" in result.stdout


def test_calibrate_apply_to_csv_records_the_calibrator_for_later_commands(visits):
    run("calibrate", "fit", "fit.csv", *VISITS, "--unlabelled", "skip", "-o", "t.json", cwd=visits)
    result = run("calibrate", "apply", "test.csv", "t.json", *VISITS, "-o", "recorded.csv", cwd=visits)
    assert "column calibrated_by names the calibrator" in plain(result.stdout)
    assert set(_cells(visits / "recorded.csv")["calibrated_by"]) == {"auto"}
    result = run("calibrate", "apply", "recorded.csv", "t.json", *VISITS, "-o", "twice.csv", cwd=visits)
    assert "WARNING: the input was already calibrated (auto)" in plain(result.stdout)
    assert set(_cells(visits / "twice.csv")["calibrated_by"]) == {"auto then auto"}
    result = run("decide", "recorded.csv", *VISITS, "-o", "decided.csv", cwd=visits)
    assert result.returncode == 0, result.stderr
    assert list(_cells(visits / "decided.csv")) == [*_cells(visits / "recorded.csv"), "decision", "confidence"]
    # almost all labels are changed: the advice for a calibrated file without discrimination is not to calibrate it
    lines = _cells(visits / "recorded.csv")
    lines["grade"] = "severe"
    lines.loc[:20, "grade"] = "none"
    lines.to_csv(visits / "shifted.csv", sep=";", index=False)
    result = run("evaluate", "shifted.csv", *VISITS, "--n-resamples", "50", cwd=visits)
    assert "shifted.csv: calibrated by auto (column calibrated_by)" in plain(result.stdout + result.stderr)
    assert "Do not use these predictions" in plain(result.stdout)
    assert "Calibrate the model on labelled rows" not in plain(result.stdout)


def test_evaluate_column_calibrated_by_with_empty_cells_is_ignored(visits):
    lines = _cells(visits / "fit.csv").assign(calibrated_by="auto")
    lines.loc[3, "calibrated_by"] = ""
    lines.to_csv(visits / "merged.csv", sep=";", index=False)
    predictions = Predictions.read(
        visits / "merged.csv", probs="p_*", classes=["none", "mild", "severe"], label="grade", unlabelled="skip"
    )
    assert predictions.history == ()
    assert any("'calibrated_by' is ignored" in note for note in predictions.notes)


def test_calibrate_fit_missing_labels_are_refused_with_their_number(visits):
    result = run("calibrate", "fit", "fit.csv", *VISITS, "-o", "c.json", cwd=visits)
    assert_data_error(result, "30 of 300 rows", "--unlabelled skip")


def test_decide_and_sets_apply_add_columns_to_all_rows(visits):
    assert run("decide", "test.csv", *VISITS, "--rule", "median", "-o", "d.csv", cwd=visits).returncode == 0
    before, after = _cells(visits / "test.csv"), _cells(visits / "d.csv")
    assert list(after) == [*before, "decision", "confidence"]
    pd.testing.assert_frame_equal(after[list(before)], before)
    assert set(after["decision"]) == {"none", "mild", "severe"}
    run("sets", "fit", "fit.csv", *VISITS, "--unlabelled", "skip", "-o", "s.json", cwd=visits)
    result = run("sets", "apply", "d.csv", "s.json", *VISITS, "-o", "sets.csv", cwd=visits)
    assert result.returncode == 0, result.stderr
    assert "30 of 300 rows have no label" in plain(result.stdout)
    assert list(_cells(visits / "sets.csv")) == [*after, "set_low", "set_high", "set_size"]
    again = run("decide", "d.csv", *VISITS, "-o", "e.csv", cwd=visits)
    assert_data_error(again, "already has a column 'decision'")
    assert not (visits / "e.csv").exists()


def test_split_in_a_narrow_terminal_prints_file_names_on_one_line(visits):
    parts = ("--part", "for_the_calibrator.csv=0.7", "--part", "for_the_test.csv=0.3")
    result = run("split", "test.csv", *parts, "--label", "grade", cwd=visits, width=60)
    assert result.stdout.splitlines()[1].startswith("for_the_calibrator.csv")


def test_split_keeps_clusters_together_and_every_row(visits):
    parts = ("--part", "a.csv=0.7", "--part", "b.csv=0.3")
    assert run("split", "test.csv", *parts, "--cluster", "site", cwd=visits).returncode == 0
    sites = [set(_cells(visits / name)["site"]) for name in ("a.csv", "b.csv")]
    assert [len(names) for names in sites] == [1, 1]
    assert sites[0] != sites[1]
    result = run("split", "test.csv", *parts, "--label", "grade", cwd=visits)
    assert result.returncode == 0, result.stderr
    lines = [(visits / name).read_text().splitlines() for name in ("test.csv", "a.csv", "b.csv")]
    assert sorted(lines[1][1:] + lines[2][1:]) == sorted(lines[0][1:])
    assert len(lines[1]) == 211
    assert lines[1][0] == lines[2][0] == lines[0][0]
    for arguments, words in {
        ("--part", "a.csv=0.7"): ["two or more"],
        ("--part", "a.csv=0.7", "--part", "b.csv=0.7"): ["sum to 1.4"],
        ("--part", "a.csv=x", "--part", "b.csv=0.5"): ["--part a.csv=x"],
        (*parts, "--cluster", "sight"): ["'sight'", "'site'"],
    }.items():
        result = run("split", "test.csv", *arguments, cwd=visits)
        assert result.returncode != 0
        for word in words:
            assert word in plain(result.stderr)


def write_visits(path, rows, seed):
    """Calibrated predictions of visits: two sites, patients with several visits, a class that is hard to predict."""
    rng = np.random.default_rng(seed)
    logits = -((np.arange(4) - rng.uniform(-0.5, 3.5, size=(rows, 1))) ** 2)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (rng.random((rows, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    y[rng.random(rows) < 0.1] = 3
    data = pd.DataFrame(p, columns=[f"p_{name}" for name in CLASSES]).assign(grade=np.array(CLASSES)[y])
    data["site"] = rng.choice(["north", "south", "west"], rows, p=[0.6, 0.396, 0.004])
    data["patient"] = np.arange(rows) // 3
    data.to_csv(path, index=False)


def test_sets_by_subgroup_and_cluster_and_the_judged_coverage_of_classes(tmp_path):
    reading = ("--label", "grade", "--probs", "p_*")
    for seed, name in enumerate(("fit", "new")):
        write_visits(tmp_path / f"{name}.csv", 1500, seed)
    both = ("--subgroup", "site", "--cluster", "patient")
    result = run("sets", "fit", "fit.csv", *reading, *both, "-o", "s.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "fitted on 1,500 rows of 500 clusters" in plain(result.stdout)
    assert "subgroup west" in result.stdout
    assert "threshold of all rows" in plain(result.stdout)
    assert "at least 9 clusters" in plain(result.stderr)
    apply = ("sets", "apply", "new.csv", "s.json", *reading, "-o", "sets.csv")
    assert_data_error(run(*apply, cwd=tmp_path), "subgroup", "--subgroup COLUMN")
    result = run(*apply, *both, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    text = plain(result.stdout)
    assert "subgroup north: coverage" in text
    counts = pd.read_csv(tmp_path / "new.csv")["grade"].value_counts()
    assert f"% of {counts['severe']} rows" in text
    assert "class severe: coverage" in text
    assert "--class-conditional" in text
    run("sets", "fit", "fit.csv", *reading, "--class-conditional", "-o", "c.json", cwd=tmp_path)
    result = run("sets", "apply", "new.csv", "c.json", *reading, "-o", "sets.csv", cwd=tmp_path)
    assert "--class-conditional" not in plain(result.stdout)
    result = run("sets", "fit", "fit.csv", *reading, *both, "--class-conditional", "-o", "x.json", cwd=tmp_path)
    assert_usage_error(result, "--class-conditional, --subgroup")


@pytest.mark.parametrize("order", ["other order", "other names", "fewer"])
@pytest.mark.parametrize("command", ["calibrate", "sets"])
def test_apply_to_other_classes_is_refused_with_the_mapping(command, order, tmp_path):
    reading = ("--label", "grade", "--probs", "p_*")
    for seed, name in enumerate(("fit", "new")):
        write_visits(tmp_path / f"{name}.csv", 300, seed)
    options = ("--calibrator", "temperature") if command == "calibrate" else ()
    result = run(command, "fit", "fit.csv", *reading, *options, "-o", "fitted.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    data = pd.read_csv(tmp_path / "new.csv").drop(columns=["grade", "site", "patient"])
    if order == "other order":
        data = data[data.columns[::-1]]
    elif order == "other names":
        data = data.rename(columns={"p_none": "p_healthy"})
    else:
        data = data.drop(columns="p_none").pipe(lambda part: part.div(part.sum(axis=1), axis=0))
    data.to_csv(tmp_path / "new.csv", index=False)
    apply = (command, "apply", "new.csv", "fitted.json", "--probs", "p_*", "-o", "out.csv")
    result = run(*apply, "--classes", ",".join(name[2:] for name in data.columns), cwd=tmp_path)
    words = {
        "other order": ["severe would be read as none", "--classes none,mild,moderate,severe"],
        "other names": ["healthy would be read as none", "rename"],
        "fewer": ["3 classes", "4 classes", "none, mild, moderate, severe"],
    }[order]
    assert_data_error(result, "new.csv", "fitted.json", *words)
    assert not (tmp_path / "out.csv").exists()
    if order == "other order":  # as the message says
        assert run(*apply, "--classes", ",".join(CLASSES), cwd=tmp_path).returncode == 0


def test_calibrate_compare_by_subgroup_with_weights_clusters_and_zero_probabilities(tmp_path):
    reading = ("--label", "grade", "--probs", "p_*")
    for seed, name in enumerate(("fit", "new")):
        path = tmp_path / f"{name}.csv"
        write_visits(path, 300, seed)
        data = pd.read_csv(path)
        columns = [f"p_{label}" for label in CLASSES]
        sharp = data[columns] ** 6
        data[columns] = sharp.div(sharp.sum(axis=1), axis=0).round(3)  # zeros, as in a file of three digits
        data["weight"] = np.random.default_rng(seed).uniform(0.5, 2, size=300)
        data["site"] = np.where(np.arange(300) % 2, "north", "south")
        data.to_csv(path, index=False)
    columns = ("--subgroup", "site", "--cluster", "patient", "--sample-weight", "weight")
    evaluated = run("evaluate", "new.csv", *reading, "--n-resamples", "50", cwd=tmp_path)
    count = plain(evaluated.stdout).split("infinite (")[1].split(" rows")[0]
    result = run("calibrate", "compare", "fit.csv", *reading, *columns, "--test", "new.csv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    text = plain(result.stdout)
    assert "by subgroup" in text
    assert "grouped" in text
    assert "log loss (NLL" in text
    for site in ("north", "south"):
        assert f"{site} 150 infinite" in text
    assert f"infinite nll (none, projection): {count} rows give probability 0 to the true class" in text
    (projection,) = (line.split() for line in result.stdout.splitlines() if line.startswith("projection "))
    assert projection[-3] == "infinite"
    assert "vector+projection" in text
    narrow = run("calibrate", "compare", "fit.csv", *reading, cwd=tmp_path, width=80)
    lines = narrow.stdout.split("cross-validation")[1].split("chosen on")[0].splitlines()
    assert [line.startswith("  + projection ") for line in lines if "projection" in line] == [True] * 5 + [False]
    assert all(len(line.rstrip()) <= 80 and (line.count("%") >= 4 or "accuracy" in line) for line in lines[1:-1])
