"""`check`: alarms, location and start of a drift, references, late labels, page and chart."""

import json
import shutil
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from orcu import InputError, Predictions
from orcu.figures.save import save
from orcu.monitoring import Log, check
from orcu.monitoring.check import DayResult, format_e_value
from orcu.monitoring.log import Day
from orcu.monitoring.page import build, chart
from orcu.report.page import Provenance

FIRST = date(2026, 6, 1)
CLASSES = ["<none>", "mild", "severe"]
WRITTEN_BY_0_2 = Path(__file__).parents[1] / "data" / "written_by_0_2" / "monitoring"


def simulate(rng, count, *, sharpen=1.0, shift=0.0):
    """Predictions of a calibrated model, made overconfident by `sharpen` or biased by `shift`."""
    logits = -((np.arange(3) - rng.normal(1, 1.2, size=(count, 1))) ** 2)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(count)[:, None] > probs.cumsum(1)[:, :-1]).sum(1)
    return Predictions(logits=sharpen * logits + shift * np.arange(3), codes=y, classes=CLASSES)


def fill(path, days=40, *, drift_day=40, seed=0, first=FIRST, **drift):
    log, rng = Log(path), np.random.default_rng(seed)
    for day in range(days):
        log.add(first + timedelta(days=day), simulate(rng, 100, **(drift if day >= drift_day else {})))
    return log


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("calm") / "log")


@pytest.fixture(scope="module")
def drifted(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("drifted") / "log", drift_day=20, sharpen=2.0)


def test_check_calibrated_model_has_no_alarm(calm):
    result = check(calm)
    assert not result.alarm
    assert result.drift is None
    assert result.e_value < 1
    assert result.alarm_threshold == 20
    assert result.tolerance == 0.02
    assert str(result).startswith("No alarm: ")
    assert "2 points" in result.findings[0]
    assert "alarm threshold 20" in result.findings[0]
    assert repr(result).startswith(f"Check(alarm=False, e_value={result.e_value:.3g}, alarm_threshold=20, days=40")
    assert result.days[-1].overconfidence_low < 0 < result.days[-1].overconfidence_high
    assert check(calm, tolerance=0).e_value > result.e_value


def test_check_locates_drift_and_its_start(drifted):
    result = check(drifted)
    assert result.alarm
    assert abs((result.drift.since - (FIRST + timedelta(days=20))).days) <= 2
    assert result.drift.threshold is None
    assert result.drift.bin is None
    assert result.drift.prob_pred > result.drift.prob_true + 0.05
    assert str(result).startswith("ALARM: ")
    assert f"since {result.drift.since}" in result.findings[0]
    assert "overconfident" in result.findings[1]
    assert f"since='{result.since}'" in repr(result)
    assert result.since == result.drift.since
    assert sum(table[0].sum() for table in result.drift.tables) == result.tally.rows == 4000
    assert max(day.e_value for day in result.days[:20]) < result.alarm_threshold


@pytest.mark.parametrize(("shift", "kind"), [(1.0, "lower"), (-1.0, "higher")])
def test_check_biased_grades_name_threshold_and_direction(tmp_path, shift, kind):
    result = check(fill(tmp_path / "log", 20, drift_day=0, shift=shift))
    assert result.alarm
    assert result.drift.threshold is not None
    assert f"grades are {kind}" in result.findings[1]
    assert "P(at most " in result.findings[1]


def test_check_locates_drift_of_one_bin(tmp_path):
    log, rng = Log(tmp_path / "log"), np.random.default_rng(0)
    for day in range(30):
        confidence = np.repeat([0.65, 0.75, 0.97], [300, 300, 40])
        right = rng.random(len(confidence)) < np.where(confidence == 0.97, 0.75, confidence)
        probs = np.stack([confidence, 1 - confidence], axis=1)
        log.add(FIRST + timedelta(days=day), Predictions(probs=probs, y=(~right).astype(int)))
    result = check(log)
    assert result.alarm
    assert result.drift.bin == pytest.approx((14 / 15, 1))
    assert "93 to 100 %" in result.findings[1]


def test_check_with_reference_detects_changes_only(tmp_path):
    constant = fill(tmp_path / "constant", 60, drift_day=0, sharpen=2.0)
    assert check(constant).alarm
    result = check(constant, reference_days=30)
    assert not result.alarm
    assert result.alarm_threshold == pytest.approx(25)
    assert (result.reference.first, result.reference.last) == (FIRST, FIRST + timedelta(days=29))
    assert (len(result.days), result.reference.rows) == (30, 3000)
    assert result.reference.overconfidence_low > 0.02  # overconfident
    assert "2026-06-01 to 2026-06-30" in result.findings[0]
    repaired = fill(tmp_path / "repaired", 60, seed=1, first=date(2026, 1, 1))
    changed = check(repaired, reference=constant)
    assert changed.alarm
    assert "reference" in changed.findings[1]
    assert check(repaired, reference=constant.path).e_value == changed.e_value
    single_day = check(repaired, reference=constant.path / "2026-06-01.json")
    assert single_day.reference.rows == 100
    assert check(repaired, reference=constant, tolerance=0.3).alarm is False


def test_check_late_labels_give_the_same_e_values(tmp_path):
    rng = np.random.default_rng(4)
    days = [simulate(rng, 60, sharpen=1.5) for _ in range(6)]
    orders = {"at once": [(day, slice(None)) for day in range(6)]}
    orders["late"] = [(day, slice(0, 20)) for day in range(6)] + [(day, slice(20, 60)) for day in (3, 0, 5, 4, 1, 2)]
    results = []
    for name, order in orders.items():
        log = Log(tmp_path / name)
        for day, part in order:
            log.add(FIRST + timedelta(days=day), days[day][part], append=part.start == 20)
        results.append([day.log_e_value for day in check(log).days])
    assert results[0] == results[1]


def test_check_day_without_labelled_rows(tmp_path):
    log = fill(tmp_path / "log", 10)
    e_value = check(log).e_value
    (log.path / "2026-06-05.json").unlink()
    assert check(log).e_value != e_value
    empty = Day.from_predictions("2026-06-05", simulate(np.random.default_rng(0), 3), np.array([-1, -1, -1]))
    (log.path / "2026-06-05.json").write_text(json.dumps(empty.to_dict()))
    result = check(log)
    assert (result.days[4].rows, result.days[4].unlabelled) == (0, 3)
    assert np.isnan(result.days[4].accuracy)
    assert "3 rows have no label yet" in str(result)
    json.dumps(result.to_dict(), allow_nan=False)


def test_check_since_selects_later_days(drifted):
    result = check(drifted, since="2026-06-11")
    assert result.days[0].day == date(2026, 6, 11)
    with pytest.raises(InputError, match="^since:"):
        check(drifted, since="last week")
    with pytest.raises(InputError, match="no row has a label among the selected days"):
        check(drifted, since="2027-01-01")


def test_check_mentions_earlier_peak_of_the_e_value(tmp_path):
    log, rng = Log(tmp_path / "log"), np.random.default_rng(0)
    for day in range(100):
        log.add(FIRST + timedelta(days=day), simulate(rng, 100, sharpen=3.0 if 5 <= day < 8 else 1.0))
    result = check(log, tolerance=0.02)
    peak = max(result.days, key=lambda day: day.e_value)
    assert peak.e_value >= result.alarm_threshold > result.e_value
    assert str(peak.day) in result.findings[1]
    assert not result.alarm


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "^alpha:"),
        ({"alpha": 1}, "^alpha:"),
        ({"alpha": float("nan")}, "^alpha:"),
        ({"tolerance": -0.01}, "^tolerance:"),
        ({"tolerance": "much"}, "^tolerance:"),
        ({"reference_days": 0}, "^reference_days:"),
        ({"reference_days": 40}, "40 reference days"),
        ({"reference_days": 3, "reference": "x"}, "^reference, reference_days:"),
        ({"reference": "nowhere"}, "^nowhere: no such|^nowhere: there is no such"),
    ],
)
def test_check_invalid_settings_raise(calm, options, message):
    with pytest.raises(InputError, match=message):
        check(calm, **options)


def test_check_invalid_logs_and_references_raise(calm, tmp_path):
    with pytest.raises(InputError, match="the log has no days"):
        check(tmp_path)
    with pytest.raises(InputError, match="in the log itself"):
        check(calm, reference=calm.path)
    with pytest.raises(InputError, match="in the log itself"):
        check(calm, reference=calm.path / "2026-06-01.json")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="^reference: no row has a label"):
        check(calm, reference=tmp_path / "nothing")
    unlabelled = Day.from_predictions("2026-06-05", simulate(np.random.default_rng(0), 3), np.array([-1, -1, -1]))
    (tmp_path / "2026-06-05.json").write_text(json.dumps(unlabelled.to_dict()))
    with pytest.raises(InputError, match="^reference: no row has a label"):
        check(calm, reference=tmp_path)
    with pytest.raises(InputError, match="no row has a label;"):
        check(tmp_path)
    other = Log(tmp_path / "other")
    other.add("2026-01-01", Predictions(probs=[[0.5, 0.5]], y=[0]))
    with pytest.raises(InputError, match=r"reference .*2026-01-01 has the classes 0, 1"):
        check(calm, reference=other)


def test_check_to_dict_is_json(drifted):
    state = json.loads(json.dumps(check(drifted).to_dict(), allow_nan=False))
    assert state["alarm"] is True
    assert state["drift"]["event"] == "top label is right"
    assert state["reference"] is None
    assert len(state["days"]) == 40
    assert check(drifted, reference_days=10).to_dict()["reference"]["rows"] == 1000
    assert state["days"][-1]["e_value"] == state["e_value"]


def test_build_page_is_complete_escaped_and_deterministic(drifted, calm):
    provenance = Provenance(date="2026-11-17", command="orcu monitor check <log>")
    for log, options in ((drifted, {}), (calm, {"reference_days": 10})):
        result = check(log, **options)
        page = build(result, provenance=provenance)
        assert page == build(result, provenance=provenance)
        assert "&lt;none&gt;" in page
        assert "<none>" not in page
        assert "check &lt;log&gt;" in page
        assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/", "")
        assert page.count('<svg role="img"') == 5 + bool(options) + result.alarm
        assert ("ALARM" in page) == result.alarm


def test_chart_shows_e_values_and_overconfidence(drifted, tmp_path):
    result = check(drifted, period="day")
    figure = chart(result, width="column")
    above, below = figure.axes
    assert above.get_yscale() == "log"
    assert above.lines[0].get_ydata()[0] == result.alarm_threshold
    assert above.lines[1].get_ydata()[-1] == pytest.approx(min(result.e_value, 1e12))
    assert len(below.lines[1].get_ydata()) == 40
    save(figure, tmp_path / "chart.png", dpi=70)
    assert (tmp_path / "chart.png").stat().st_size > 1000
    save(chart(check(fill(tmp_path / "one", 1))), tmp_path / "one.svg")


@pytest.mark.parametrize(("e_value", "text"), [(2.345, "2.3"), (1234.4, "1,234"), (1e9, "10⁹")])
def test_format_e_value_by_size(e_value, text):
    assert format_e_value(DayResult(FIRST, 9, 0, 0.9, 0.1, 0.1, 0.0, np.log(e_value), -0.1, 0.1, None, 9.0)) == text


@pytest.mark.parametrize(("name", "options"), [("plain", {"tolerance": 0.0}), ("reference", {"reference_days": 3})])
def test_check_log_written_by_0_2_gives_equal_numbers(tmp_path, name, options):
    expected = json.loads((WRITTEN_BY_0_2 / "expected.json").read_text())[name]
    log = Log(shutil.copytree(WRITTEN_BY_0_2 / "log", tmp_path / "log"))
    state = json.loads(json.dumps(check(log, **options).to_dict()))
    for key in ("e_value", "alarm_threshold"):
        assert state[key] == expected[key]
    assert [{key: day[key] for key in expected["days"][0]} for day in state["days"]] == expected["days"]
    reference = expected["reference"] and {key: state["reference"][key] for key in expected["reference"]}
    assert reference == expected["reference"]
    drift = expected["drift"] and {key: state["drift"][key] for key in expected["drift"]}
    assert drift == expected["drift"]
    day = log.days()[1]
    assert (day.unlabelled, len(day.unlabelled_ids), len(day.ids)) == (12, 12, 48)
    rows = Predictions(probs=np.eye(3), y=day.classes, classes=day.classes)
    assert log.add("2026-06-01", rows, n_bins=5, append=True).tally.rows == 63


def test_check_reference_days_count_days_with_labelled_rows(tmp_path):
    log, rng = Log(tmp_path / "log"), np.random.default_rng(0)
    for day in range(0, 60, 10):  # one day in ten has rows
        log.add(FIRST + timedelta(days=day), simulate(rng, 50))
    empty = Day.from_predictions("2026-06-02", simulate(rng, 3), np.array([-1, -1, -1]))
    (log.path / "2026-06-02.json").write_text(json.dumps(empty.to_dict()))
    result = check(log, reference_days=3)
    assert (result.reference.rows, result.reference.last) == (150, FIRST + timedelta(days=20))
    assert len(result.days) == 3
    with pytest.raises(InputError, match="6 reference days, because the log has 6 days with labelled rows"):
        check(log, reference_days=6)


def test_chart_legends_are_outside_of_the_axes(drifted):
    figure = chart(check(drifted, reference_days=10))
    figure.draw_without_rendering()
    for ax in figure.axes:
        assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1 - 1
    above, below = figure.axes
    assert below.get_legend().get_window_extent().y1 <= above.get_window_extent().y0  # nor in the panel above
