"""``orcu bench``."""

from command import assert_data_error, assert_usage_error, plain, run


def test_bench_plan_run_table_status_report(spec_file, tmp_path):
    result = run("bench", "plan", "small.toml", cwd=tmp_path)
    assert "4 runs: 4 pending" in result.stdout, result.stderr
    assert_data_error(run("bench", "table", "small.toml", cwd=tmp_path), "small", "orcu bench run")
    result = run("bench", "run", "small.toml", "--jobs", 1, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "4 done" in result.stdout
    assert "all 4 runs are finished" in run("bench", "run", "small.toml", cwd=tmp_path).stdout
    result = run("bench", "table", "small.toml", "--format", "markdown", cwd=tmp_path)
    assert "| lev | ours ‡ | temperature |" in result.stdout
    assert "unimodality % ↑" in run("bench", "table", "small.toml", cwd=tmp_path).stdout
    assert_data_error(run("bench", "ranks", "small.toml", cwd=tmp_path), "at least 3 data sets")
    assert "4 finished" in run("bench", "status", "small.toml", cwd=tmp_path).stdout
    assert "wrote results/small/report.html" in run("bench", "report", "small.toml", cwd=tmp_path).stdout
    assert_data_error(run("bench", "compare", "small.toml", cwd=tmp_path), "small", "paper")


def test_bench_without_data_prints_the_commands_that_prepare_them(tmp_path):
    result = run("bench", "plan", "main", cwd=tmp_path, width=200)
    assert "275 runs: 275 no data" in result.stdout
    assert "orcu data prepare limuc --root DIR -o orcu_data/limuc" in result.stdout
    result = run("bench", "run", "main", cwd=tmp_path)
    assert_data_error(result, "prepared")
    assert "warning: skipped, data not prepared: orcu data prepare limuc" in result.stderr


def test_bench_usage_errors(tmp_path):
    assert_usage_error(run("bench", "table", "main", "--format", "pdf", cwd=tmp_path), "--format", "markdown")
    assert_usage_error(run("bench", "table", "main", "--paper", cwd=tmp_path), "--paper", "--layout paper")
    assert_usage_error(run("bench", "plan", "main", "posthoc", "--extra", "grid", cwd=tmp_path), "--extra")
    assert_usage_error(run("bench", "convert", cwd=tmp_path), "convert")
    assert "SPEC" in plain(run("bench", "table", "--help", cwd=tmp_path).stdout).upper()
