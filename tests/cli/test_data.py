"""``orcu data`` as a user meets it."""

from command import run
from PIL import Image


def test_list_and_info(tmp_path):
    told = run("data", "list", cwd=tmp_path, width=120)
    assert told.returncode == 0, told.stderr
    assert "pip install 'orcu[data]'" in told.stdout
    assert "88,702" in told.stdout
    told = run("data", "info", "limuc", cwd=tmp_path)
    assert "paper (10 folds)" in told.stdout
    assert "CC BY 4.0" in told.stdout
    assert "orcu data prepare limuc --root DIR" in told.stdout
    told = run("data", "info", "limux", cwd=tmp_path)
    assert told.returncode == 2
    assert "Did you mean 'limuc'" in told.stderr


def test_prepare_folds_show_table(class_folders, tmp_path):
    told = run("data", "prepare", "folder", "--root", class_folders, "--size", 16, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "60 rows: 0_none 20, 1_mild 20, 2_severe 20" in told.stdout
    assert "wrote orcu_data/folder" in told.stdout
    told = run("data", "prepare", "lev", cwd=tmp_path)
    assert "counts as on the card" in told.stdout
    told = run("data", "folds", "folder", cwd=tmp_path)
    assert "validation" in told.stdout
    again = run("data", "folds", "folder", "--seed", 7, cwd=tmp_path)
    assert "folder, seed 7" in again.stdout
    told = run("data", "show", "folder", "-o", "sheets", "--count", 4, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    sheets = sorted((tmp_path / "sheets").iterdir())
    assert [path.name for path in sheets] == ["folder_0_0_none.png", "folder_1_1_mild.png", "folder_2_2_severe.png"]
    with Image.open(sheets[0]) as sheet:
        assert sheet.size[0] > 4 * 160
    told = run("data", "table", "--markdown", cwd=tmp_path)
    assert "| label | folder | lev |" in told.stdout
    assert "| 0 | 20 (33.33%) | 93 (9.30%) |" in told.stdout
    told = run("data", "list", cwd=tmp_path, width=120)
    assert told.stdout.count("yes") == 2


def test_mistakes_are_one_line(tmp_path):
    for arguments, code, message in (
        (["prepare", "adience"], 3, "say where its files are"),
        (["prepare", "adience", "--root", ".", "--download"], 3, "cannot be downloaded by orcu"),
        (["prepare", "sst5", "--download"], 3, "say where to put the files"),
        (["prepare", "lev", "--option", "nonsense"], 2, "expected KEY=VALUE"),
        (["prepare", "lev", "--option", "a=b"], 3, "unknown option"),
        (["folds", "lev"], 3, "not prepared in orcu_data"),
        (["table"], 2, "nothing is prepared"),
    ):
        told = run("data", *arguments, cwd=tmp_path)
        assert told.returncode == code, told.stderr
        assert message in " ".join(told.stderr.split())
        assert "Traceback" not in told.stderr
    assert not (tmp_path / "orcu_data").exists()
