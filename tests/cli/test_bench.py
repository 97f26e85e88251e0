"""``orcu bench`` as a user meets it."""

from command import run


def test_plan_run_table_status(spec_file, tmp_path):
    told = run("bench", "plan", "small.toml", cwd=tmp_path)
    assert "4 runs: 4 waiting" in told.stdout, told.stderr
    told = run("bench", "table", "small.toml", cwd=tmp_path)
    assert told.returncode == 3
    assert "no run of small is finished yet" in told.stderr
    told = run("bench", "run", "small.toml", "--jobs", 1, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "4 done" in told.stdout
    assert "all 4 runs are finished" in run("bench", "run", "small.toml", cwd=tmp_path).stdout
    assert (
        "| lev | ours ‡ | temperature |"
        in run("bench", "table", "small.toml", "--format", "markdown", cwd=tmp_path).stdout
    )
    assert "unimodality % ↑" in run("bench", "table", "small.toml", cwd=tmp_path).stdout
    assert "4 finished" in run("bench", "status", "small.toml", cwd=tmp_path).stdout
    told = run("bench", "report", "small.toml", cwd=tmp_path)
    assert "wrote results/small/report.html" in told.stdout
    told = run("bench", "compare", "small.toml", cwd=tmp_path)
    assert told.returncode == 3
    assert "answers no table of the paper" in told.stderr


def test_a_benchmark_without_its_data_says_how_to_get_them(tmp_path):
    told = run("bench", "plan", "main", cwd=tmp_path, width=200)
    assert "275 runs: 275 no data" in told.stdout
    assert "orcu data prepare limuc --root DIR -o orcu_data/limuc" in told.stdout
    told = run("bench", "run", "main", cwd=tmp_path)
    assert told.returncode == 3
    assert "none of the data are prepared" in told.stderr
