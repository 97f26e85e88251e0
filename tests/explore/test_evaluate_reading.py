"""CSV reader of the explorer in a browser: the same predictions as `Predictions.read`, or an error."""

import base64
import json
import shlex
from itertools import pairwise

import numpy as np
import pytest
from browser import MARKS, dom_with, probe_result, without_policy

from orcu import Predictions, explore
from orcu.errors import InputError

pytestmark = MARKS

# Reads each file like the page, with its proposed choice or with the choice of the case.
READ = """<script type="application/json" id="cases">%s</script>
<script>
window.addEventListener('load', () => {
  const cases = JSON.parse(document.getElementById('cases').textContent);
  const read = file => {
    try {
      const bytes = Uint8Array.from(atob(file.bytes), c => c.charCodeAt(0));
      orcuTable.checkSize(bytes.length, file.name);
      const table = orcuTable.read(orcuTable.textOf(bytes.buffer, file.name), file.name);
      const { choice: proposal, question } = orcuPredictions.propose(table);
      if (question && !file.choice) return { error: question, proposal };
      const choice = { ...proposal, ...(file.choice ? { confirmed: true, ...file.choice } : {}) };
      if (file.choice?.columns && !file.choice.order) choice.order = choice.columns;
      const { classes, probs, logits, labels, notes } = orcuPredictions.read(table, choice);
      return { classes, values: [...(probs ?? logits)], labels: [...labels], notes, choice,
        command: orcuPredictions.command(table, choice, file.name) };
    } catch (error) {
      return error instanceof InputError ? { error: error.message } : { failed: String(error.stack) };
    }
  };
  const out = document.createElement('pre'); out.id = 'probe';
  out.textContent = JSON.stringify(cases.map(read));
  document.body.replaceChildren(out);
});
</script>"""

PLAIN = "grade,p_none,p_mild,p_severe\nnone,0.7,0.2,0.1\nsevere,0.1,0.2,0.7\nmild,0.25,0.5,0.25\n"
STAR = {"label": "grade", "probs": "p_*"}
LOGITS = "grade,z_none,z_mild,z_severe\nnone,2,0.5,-1\nsevere,-3,0,1e1\n"
TEN = "y," + ",".join(f"p_{k}" for k in (0, 1, 10, 2)) + "\n0,0.1,0.2,0.3,0.4\n10,0.1,0.2,0.3,0.4\n"

# name: (file, choice of the user on the page or None, equivalent options of Predictions.read)
ACCEPTED = {
    "commas": (PLAIN, None, STAR),
    "semicolons and decimal commas": (PLAIN.replace(",", ";").replace(".", ","), None, STAR),
    "tabs": (PLAIN.replace(",", "\t"), None, STAR),
    "bars": (PLAIN.replace(",", "|"), None, STAR),
    "a byte-order mark and CRLF": ("\ufeff" + PLAIN.replace("\n", "\r\n"), None, STAR),
    "no last line break, blank lines": ("\n\n" + PLAIN.replace("\n", "\n\n").strip(), None, STAR),
    "quoted cells": (
        '"grade","p_none","p_mild","p_severe","remark"\n"none","0.7","0.2","0.1","a ""b"", c"\n'
        'severe,0.1,0.2,0.7,"two\nlines"\nmild,0.25,0.5,0.25,\n',
        None,
        STAR,
    ),
    "decimal commas in quotes": ('grade,p_none,p_mild\nnone,"0,7","0,3"\nmild,"0,5","0,5"\n', None, STAR),
    "blanks around numbers and names": ("grade , p_none, p_mild\n none , 0.7 ,0.3\nmild,.5,5e-1\n", None, STAR),
    "numbers without a sign between": (
        "y,p0,p1,p2\n0,0.7,0.2,0.1\n2.0,0.1,0.2,0.7\n",
        None,
        {"label": "y", "probs": "p*"},
    ),
    "classes from 1": ("y,p_1,p_2,p_3\n1,0.7,0.2,0.1\n3,0.1,0.2,0.7\n", None, {"label": "y", "probs": "p_*"}),
    "bare class names": (
        "none,mild,severe,truth\n0.7,0.2,0.1,none\n0.1,0.2,0.7,severe\n0.2,0.2,0.6,mild\n",
        None,
        {"label": "truth", "probs": ["none", "mild", "severe"]},
    ),
    "names with a common beginning": (
        "grade,p_moderate,p_mild\nmild,0.7,0.3\nmoderate,0.5,0.5\n",
        None,
        {"label": "grade", "probs": "p_*"},
    ),
    "names with a sign in them": (
        "grade,p_very_low,p_very_high\nvery_high,0.7,0.3\nvery_low,0.5,0.5\n",
        {"columns": ["p_very_low", "p_very_high"]},
        {"label": "grade", "probs": "p_*"},
    ),
    "other columns": (
        "id,age,fold,grade,p_none,p_mild,p_severe,pred\n1,40,0,none,0.7,0.2,0.1,none\n2,50,1,mild,0.1,0.2,0.7,severe\n",
        None,
        STAR,
    ),
    "a column of weights": (PLAIN.replace("\n", ",2\n").replace("p_severe,2", "p_severe,weight"), None, STAR),
    "rounded numbers": ("grade,p_b,p_a,p_c\nb,0.33,0.33,0.33\na,0.3,0.3,0.4\n", None, STAR),
    "numbers within the tolerance": ("grade,p_b,p_a\nb,0.70012345678,0.2994\na,0.3,0.7\n", None, STAR),
    "p exactly 0 and 1": ("grade,p_b,p_a\nb,1,0\na,1,0.0\n", None, STAR),
    "percent": (
        "grade,p_b,p_a\nb,70,30\na,33.3,66.7\n",
        {"kind": "percent"},
        {"label": "grade", "probs": "p_*", "percent": True},
    ),
    "logits": (LOGITS, {"kind": "logits"}, {"label": "grade", "logits": "z_*"}),
    "numbers out of order": (
        TEN,
        {"order": ["p_0", "p_1", "p_2", "p_10"]},
        {"label": "y", "probs": "p_*", "classes": ["0", "1", "2", "10"]},
    ),
    "names in the order of the alphabet": (
        "grade,p_high,p_low,p_mid\nlow,0.1,0.7,0.2\nhigh,0.5,0.2,0.3\n",
        {"order": ["p_low", "p_mid", "p_high"]},
        {**STAR, "classes": ["low", "mid", "high"]},
    ),
    "labels that count from 0": (
        "y,p_none,p_mild\n0,0.7,0.3\n1,0.5,0.5\n",
        {"labels": "from 0"},
        {"label": "y", "probs": "p_*", "classes": ["none", "mild"]},
    ),
    "labels that count from 1": (
        "y,p_none,p_mild\n1,0.7,0.3\n2,0.5,0.5\n",
        {"labels": "from 1"},
        {"label": "y", "probs": "p_*", "classes": ["1", "2"]},
    ),
    "labels that count from 1, columns from 0": (
        "y,p_0,p_1\n1,0.7,0.3\n2,0.5,0.5\n",
        {"labels": "from 1"},
        {"label": "y", "probs": "p_*", "classes": ["1", "2"]},
    ),
    "some of the columns": (
        "y,p0,p1,prior\n0,0.7,0.3,0.5\n1,0.5,0.5,0.5\n",
        {"columns": ["p0", "p1"]},
        {"label": "y", "probs": ["p0", "p1"], "classes": ["0", "1"]},
    ),
    "strange names": (
        "true grade,it's <b>,$(x) `y`\nit's <b>,0.5,0.5\n$(x) `y`,0.2,0.8\n",
        {"label": "true grade", "columns": ["it's <b>", "$(x) `y`"]},
        {"label": "true grade", "probs": ["it's <b>", "$(x) `y`"]},
    ),
}

# name: (file, choice or None, options of Predictions.read or None if only the page raises, part of the message)
REJECTED = {
    "an empty file": ("", None, STAR, "the file is empty"),
    "blank lines": ("\n \n\n", None, STAR, "the file is empty"),
    "a header alone": ("grade,p_a,p_b\n", None, STAR, "no rows below the header"),
    "one column": ("grade\nlow\nhigh\n", None, STAR, "has a single column, 'grade'"),
    "no header": ("0,0.7,0.3\n1,0.2,0.8\n", None, None, "(0, 0.7, 0.3)"),
    "a column twice": ("y,p_a,p_a\na,0.5,0.5\n", None, STAR, "duplicate column 'p_a'"),
    "a short row": (PLAIN + "none,0.5,0.5\n", None, STAR, "row 4 has 3 cells, expected 4"),
    "a workbook": (b"PK\x03\x04\x14\x00\x06\x00\xff\xfe", None, None, "an Excel workbook or a ZIP archive"),
    "an old workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1", None, None, "an old Excel workbook"),
    "Parquet": (b"PAR1\x15\x04", None, None, "a Parquet file"),
    "gzip": (b"\x1f\x8b\x08\x00", None, None, "a compressed file"),
    "another encoding": ("grade,p_é\n".encode("latin-1"), None, STAR, "UTF-8"),
    "UTF-16": ("grade,p_a\n".encode("utf-16"), None, STAR, "UTF-8"),
    "zero bytes": (b"grade,p_a\n\x00\x00\n", None, None, "zero bytes"),
    "an open quotation mark": ('y,p_a,p_b\n"a,0.5,0.5\nb,0.1,0.9\n', None, None, "never closed"),
    "an empty number": (PLAIN.replace("0.25,0.5,", ",0.5,"), None, STAR, "column 'p_none': row 3 is empty"),
    "a word for a number": (PLAIN.replace("0.5", "half"), None, STAR, "row 3 has 'half'"),
    "a percent sign": (PLAIN.replace("0.5", "50%"), None, STAR, "percent signs"),
    "nan": (PLAIN.replace("0.5", "nan"), None, STAR, "row 3 has nan in column 'p_mild'"),
    "inf": (PLAIN.replace("0.5", "-inf"), None, STAR, "row 3 has -inf in column 'p_mild'"),
    "thousands": ("grade;p_b;p_a\nb;0,5;1.000,5\na;0,5;0,5\na;0,5;0,5\n", None, STAR, "has '1.000,5'"),
    "a hexadecimal number": (PLAIN.replace("0.5", "0x1"), None, STAR, "row 3 has '0x1'"),
    "rows that miss 1": (PLAIN.replace("0.5", "0.4"), None, STAR, "row 3 sums to 0.9, expected 1 ± 0.01"),
    "percent": (
        "grade,p_b,p_a\nb,70,30\na,33.3,66.7\n",
        None,
        STAR,
        "row 1 has 70 in column 'p_b', expected values in",
    ),
    "fractions said to be percent": (PLAIN, {"kind": "percent"}, {**STAR, "percent": True}, "row 1 sums to 0.01"),
    "logits": (LOGITS, None, {"label": "grade", "probs": "z_*"}, "row 1 has 2 in column 'z_none'"),
    "no label": (PLAIN + ",0.5,0.25,0.25\n", None, STAR, "grade: row 4 has no label"),
    "null": (PLAIN + "null,0.5,0.25,0.25\n", None, STAR, "grade: row 4 has no label"),
    "a label that is no class": (PLAIN + "worse,0.5,0.25,0.25\n", None, STAR, "row 4 has label 'worse'"),
    "labels from 1": (
        "y,p_0,p_1,p_2\n1,0.7,0.2,0.1\n3,0.1,0.2,0.7\n",
        None,
        {"label": "y", "probs": "p_*"},
        "row 2 has label '3', which is not one of the classes (0, 1, 2). If labels start at 1",
    ),
    "positions": (
        "y,p_none,p_mild\n0,0.7,0.3\n1,0.1,0.9\n",
        None,
        {"label": "y", "probs": "p_*"},
        "row 1 has label '0'",
    ),
    "positions without 0": (
        "y,p_none,p_mild,p_low\n1,0.7,0.3,0\n2,0.1,0.9,0\n",
        {"labels": "from 0"},
        {"label": "y", "probs": "p_*", "classes": ["none", "mild", "low"]},
        "start at 1",
    ),
    "positions of classes that are numbers": (
        "y,p_1,p_2,p_3\n0,0.7,0.3,0\n1,0.1,0.9,0\n",
        {"labels": "from 0"},
        {"label": "y", "probs": "p_*", "classes": ["0", "1", "2"]},
        "numbers (1, 2, 3)",
    ),
    "numbers out of order": (TEN, None, {"label": "y", "probs": "p_*"}, "0, 1, 10, 2"),
    "the order of the alphabet": (
        "grade,p_high,p_low\nlow,0.1,0.9\nhigh,0.5,0.5\n",
        None,
        None,
        "alphabetical order (high, low)",
    ),
    "one class alone": ("y,p_0,p_1\n1,0.5,0.5\n1,0.2,0.8\n", None, None, "'1'"),
    "two models": ("y,a_0,a_1,b_0,b_1\n0,0.5,0.5,0.1,0.9\n1,0.5,0.5,0.1,0.9\n", None, None, "a_0 to a_1; b_0 to b_1"),
    "no predictions": ("name,remark\na,b\nc,d\n", None, None, "select the columns of the predictions"),
    "no labels": ("p_0,p_1\n0.5,0.5\n0.1,0.9\n", None, None, "only columns of predictions"),
    "numbers that may be labels or not": (
        "severity,batch,p_0,p_1\n1,0,0.5,0.5\n2,1,0.1,0.9\n",
        None,
        None,
        "select the column of the true class",
    ),
    "decisions beside no label": (
        "id,pred,p_b,p_a\n7,b,0.5,0.5\n8,a,0.1,0.9\n",
        None,
        None,
        "select the column of the true class",
    ),
    "a single class column": (PLAIN, {"columns": ["p_mild"]}, {"label": "grade", "probs": ["p_mild"]}, "at least two"),
    "a label among the classes": (
        "p_0,p_1,y\n0,1,0\n1,0,1\n",
        {"columns": ["p_0", "p_1", "y"], "label": "y"},
        None,
        "'y' is selected for the labels and for a class",
    ),
    "names that are the same": (
        "y,p_1,p_1.0\n1,0.5,0.5\n1,0.1,0.9\n",
        {"columns": ["p_1", "p_1.0"]},
        {"label": "y", "probs": "p_*"},
        "unique",
    ),
    "too many classes": (
        "y," + ",".join(f"p_{k}" for k in range(101)) + "\n" + ",".join(["0", "1", *["0"] * 100]) + "\n",
        {"columns": [f"p_{k}" for k in range(101)], "label": "y"},
        None,
        "101 classes",
    ),
}


def encode(name, text, choice):
    content = text if isinstance(text, bytes) else text.encode()
    return {"name": name, "bytes": base64.b64encode(content).decode(), "choice": choice}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of the page for each file, by name of the case."""
    cases = {f"valid: {name}": case for name, case in ACCEPTED.items()}
    cases |= {f"invalid: {name}": case for name, case in REJECTED.items()}
    payload = json.dumps([encode("preds.csv", text, choice) for text, choice, *_ in cases.values()])
    path = tmp_path_factory.mktemp("reading") / "read.html"
    text = without_policy(explore.page()).replace("</body>", READ % payload.replace("<", "\\u003c") + "</body>")
    path.write_text(text, encoding="utf-8")
    return dict(zip(cases, probe_result(dom_with("probe", path.as_uri())), strict=True))


def write_file(folder, text):
    path = folder / "preds.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", ACCEPTED)
def test_read_valid_file_equals_the_library(results, tmp_path, name):
    text, _, options = ACCEPTED[name]
    result = results[f"valid: {name}"]
    assert "classes" in result, result
    expected = Predictions.read(write_file(tmp_path, text), **options)
    values = expected.probs if expected.logits is None else expected.logits
    assert np.reshape(result["values"], values.shape) == pytest.approx(values, abs=1e-15)
    assert result["labels"] == expected.labels.tolist()
    if result["choice"]["labels"] != "from 1":  # the library then uses the labels as class names
        assert tuple(result["classes"]) == expected.classes
    normalised = [note for note in expected.notes if "normalised" in note]
    assert [note for note in result["notes"] if "normalised" in note] == normalised


@pytest.mark.parametrize("name", ACCEPTED)
def test_command_reads_the_same_predictions(results, tmp_path, name):
    text, _, options = ACCEPTED[name]
    arguments = shlex.split(results[f"valid: {name}"]["command"])
    assert arguments[:3] == ["orcu", "evaluate", "preds.csv"]
    assert arguments[-2:] == ["--report", "report.html"]
    arguments = arguments[3:-2]
    page_options = {"percent": "--percent" in arguments}
    for option, value in pairwise(arguments):
        if option.startswith("--") and option != "--percent":
            page_options[option[2:]] = value.split(",") if option == "--classes" else value
    path = write_file(tmp_path, text)
    predictions, expected = Predictions.read(path, **page_options), Predictions.read(path, **options)
    assert np.array_equal(predictions.probs, expected.probs)
    assert np.array_equal(predictions.labels, expected.labels)
    assert predictions.classes == expected.classes


@pytest.mark.parametrize("name", REJECTED)
def test_read_invalid_file_raises_and_names_the_problem(results, tmp_path, name):
    text, _, options, message = REJECTED[name]
    result = results[f"invalid: {name}"]
    assert message in result.get("error", ""), result
    assert result["error"].startswith("preds.csv: ")
    if options is not None:  # the library raises as well
        with pytest.raises(InputError):
            Predictions.read(write_file(tmp_path, text), **options)


def test_read_column_of_weights_gives_a_warning(results):
    notes = results["valid: a column of weights"]["notes"]
    assert any(note.startswith("WARNING: the column 'weight'") for note in notes)
