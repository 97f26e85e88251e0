"""``orcu data``."""

import pytest
from command import assert_data_error, assert_usage_error, run
from PIL import Image


def test_data_list_and_info(tmp_path):
    result = run("data", "list", cwd=tmp_path, width=120)
    assert result.returncode == 0, result.stderr
    assert "pip install 'orcu[data]'" in result.stdout
    assert "88,702" in result.stdout
    result = run("data", "info", "limuc", cwd=tmp_path)
    assert "paper (10 folds)" in result.stdout
    assert "CC BY 4.0" in result.stdout
    assert "orcu data prepare limuc --root DIR" in result.stdout
    assert_usage_error(run("data", "info", "limux", cwd=tmp_path), "'limux'", "Did you mean 'limuc'")


def test_data_prepare_folds_show_table(class_folders, tmp_path):
    result = run("data", "prepare", "folder", "--root", class_folders, "--size", 16, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "60 rows: 0_none 20, 1_mild 20, 2_severe 20" in result.stdout
    assert "wrote orcu_data/folder" in result.stdout
    result = run("data", "prepare", "lev", cwd=tmp_path)
    assert "1,000 rows" in result.stdout
    result = run("data", "folds", "folder", cwd=tmp_path)
    assert "validation" in result.stdout
    assert "folder, seed 7" in run("data", "folds", "folder", "--seed", 7, cwd=tmp_path).stdout
    result = run("data", "show", "folder", "-o", "sheets", "--count", 4, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    sheets = sorted((tmp_path / "sheets").iterdir())
    assert [path.name for path in sheets] == ["folder_0_0_none.png", "folder_1_1_mild.png", "folder_2_2_severe.png"]
    with Image.open(sheets[0]) as sheet:
        assert sheet.size[0] > 4 * 160
    result = run("data", "table", "--markdown", cwd=tmp_path)
    assert "| label | folder | lev |" in result.stdout
    assert "| 0 | 20 (33.33%) | 93 (9.30%) |" in result.stdout
    assert run("data", "list", cwd=tmp_path, width=120).stdout.count("yes") == 2


@pytest.mark.parametrize(
    ("arguments", "check", "words"),
    [
        (["prepare", "adience"], assert_data_error, ["adience:", "--root DIR"]),
        (["prepare", "adience", "--root", ".", "--download"], assert_data_error, ["adience:", "downloaded"]),
        (["prepare", "sst5", "--download"], assert_data_error, ["--download:", "--root DIR"]),
        (["prepare", "lev", "--set", "nonsense"], assert_usage_error, ["--set:", "KEY=VALUE", "'nonsense'"]),
        (["prepare", "lev", "--set", "a=b"], assert_data_error, ["option", "'a'"]),
        (["folds", "lev"], assert_data_error, ["lev", "orcu_data"]),
        (["table"], assert_usage_error, ["orcu_data:", "orcu data list"]),
    ],
)
def test_data_errors(arguments, check, words, tmp_path):
    check(run("data", *arguments, cwd=tmp_path), *words)
    assert not (tmp_path / "orcu_data").exists()
