"""A look at a log: alarms, where and since when, references, late labels; the page and the chart."""

import json
from datetime import date, timedelta

import numpy as np
import pytest

from orcu import InputError, Predictions
from orcu.figures.save import save
from orcu.monitoring import Log, check
from orcu.monitoring.log import Day
from orcu.monitoring.page import build, chart
from orcu.report.build import Provenance

FIRST = date(2026, 6, 1)
CLASSES = ["<none>", "mild", "severe"]


def rows(rng, count, *, sharpen=1.0, shift=0.0):
    """Predictions whose labels come from the model itself, which then says them too sharply or too low."""
    logits = -((np.arange(3) - rng.normal(1, 1.2, size=(count, 1))) ** 2)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(count)[:, None] > probs.cumsum(1)[:, :-1]).sum(1)
    return Predictions(logits=sharpen * logits + shift * np.arange(3), codes=y, classes=CLASSES)


def filled(path, days=40, *, drift_day=40, seed=0, first=FIRST, **drift):
    log, rng = Log(path), np.random.default_rng(seed)
    for day in range(days):
        log.add(first + timedelta(days=day), rows(rng, 100, **(drift if day >= drift_day else {})))
    return log


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("calm") / "log")


@pytest.fixture(scope="module")
def drifted(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("drifted") / "log", drift_day=20, sharpen=2.0)


def test_a_good_model_raises_no_alarm(calm):
    result = check(calm)
    assert not result.alarm
    assert result.drift is None
    assert result.evidence < 1
    assert result.limit == 20
    assert result.tolerance == 0.02
    assert str(result).startswith("No alarm: the evidence that the probabilities are off by more than 2 points is 0.")
    assert result.days[-1].low < 0 < result.days[-1].high
    assert check(calm, tolerance=0).evidence > result.evidence


def test_a_drift_is_seen_where_it_is_and_since_when_it_is(drifted):
    result = check(drifted)
    assert result.alarm
    assert abs((result.drift.since - (FIRST + timedelta(days=20))).days) <= 2
    assert result.drift.threshold is None
    assert result.drift.bin is None
    assert result.drift.said > result.drift.true + 0.05
    assert "ALARM: the probabilities are off by more than 2 points, most likely since 2026-06-" in str(result)
    assert "points too sure" in str(result)
    assert sum(tally.rows for tally in result.drift.tallies) == result.tally.rows == 4000
    before = [day.evidence for day in result.days[:20]]
    assert max(before) < result.limit


@pytest.mark.parametrize(("shift", "kind"), [(1.0, "lower"), (-1.0, "higher")])
def test_grades_that_are_off_to_one_side_are_named(tmp_path, shift, kind):
    result = check(filled(tmp_path / "log", 20, drift_day=0, shift=shift))
    assert result.alarm
    assert result.drift.threshold is not None
    assert f"grades are {kind} than it says" in str(result)
    assert "P(at most " in str(result)


def test_a_drift_of_one_bin_is_seen_there(tmp_path):
    log, rng = Log(tmp_path / "log"), np.random.default_rng(0)
    for day in range(30):
        said = np.repeat([0.65, 0.75, 0.97], [300, 300, 40])
        right = rng.random(len(said)) < np.where(said == 0.97, 0.75, said)
        probs = np.stack([said, 1 - said], axis=1)
        log.add(FIRST + timedelta(days=day), Predictions(probs=probs, y=(~right).astype(int)))
    result = check(log)
    assert result.alarm
    assert result.drift.bin == pytest.approx((14 / 15, 1))
    assert "of 93 to 100 %" in str(result)


def test_with_a_reference_only_a_change_counts(tmp_path):
    always = filled(tmp_path / "always", 60, drift_day=0, sharpen=2.0)
    assert check(always).alarm
    result = check(always, reference_days=30)
    assert not result.alarm
    assert result.limit == pytest.approx(25)
    assert (result.reference.first, result.reference.last) == (FIRST, FIRST + timedelta(days=29))
    assert (len(result.days), result.reference.rows) == (30, 3000)
    assert result.reference.low > 0.02  # it is over-confident there
    assert "the calibration differs from that of the reference (2026-06-01 to 2026-06-30)" in str(result)
    mended = filled(tmp_path / "mended", 60, seed=1, first=date(2027, 1, 1))
    changed = check(mended, reference=always)
    assert changed.alarm
    assert "In the reference it said +" in str(changed)
    assert check(mended, reference=always.path).evidence == changed.evidence
    one = check(mended, reference=always.path / "2026-06-01.json")
    assert one.reference.rows == 100
    assert check(mended, reference=always, tolerance=0.3).alarm is False


def test_labels_that_come_later_give_what_they_would_have_given_at_once(tmp_path):
    rng = np.random.default_rng(4)
    days = [rows(rng, 60, sharpen=1.5) for _ in range(6)]
    orders = {"at once": [(day, slice(None)) for day in range(6)]}
    orders["late"] = [(day, slice(0, 20)) for day in range(6)] + [(day, slice(20, 60)) for day in (3, 0, 5, 4, 1, 2)]
    results = []
    for name, order in orders.items():
        log = Log(tmp_path / name)
        for day, part in order:
            log.add(FIRST + timedelta(days=day), days[day][part], more=part.start == 20)
        results.append([day.log_evidence for day in check(log).days])
    assert results[0] == results[1]


def test_days_without_rows_may_come_later(tmp_path):
    log = filled(tmp_path / "log", 10)
    evidence = check(log).evidence
    (log.path / "2026-06-05.json").unlink()
    assert check(log).evidence != evidence
    empty = Day.of("2026-06-05", rows(np.random.default_rng(0), 3), np.array([-1, -1, -1]))
    (log.path / "2026-06-05.json").write_text(json.dumps(empty.to_dict()))
    result = check(log)
    assert (result.days[4].rows, result.days[4].waiting) == (0, 3)
    assert np.isnan(result.days[4].accuracy)
    assert "3 more wait for their label" in str(result)
    json.dumps(result.to_dict(), allow_nan=False)


def test_since_looks_at_later_days_only(drifted):
    result = check(drifted, since="2026-06-11")
    assert result.days[0].day == date(2026, 6, 11)
    with pytest.raises(InputError, match="since: expected a day"):
        check(drifted, since="last week")
    with pytest.raises(InputError, match="no row has a label yet among the days that count"):
        check(drifted, since="2027-01-01")


def test_evidence_that_has_fallen_is_mentioned(tmp_path):
    log, rng = Log(tmp_path / "log"), np.random.default_rng(0)
    for day in range(100):
        log.add(FIRST + timedelta(days=day), rows(rng, 100, sharpen=3.0 if 5 <= day < 8 else 1.0))
    result = check(log, tolerance=0.02)
    peak = max(day.evidence for day in result.days)
    assert peak >= result.limit > result.evidence
    assert "above the limit, and it has fallen since" in str(result)
    assert not result.alarm


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "alpha: expected a number between 0 and 1"),
        ({"alpha": 1}, "alpha: expected a number in"),
        ({"alpha": float("nan")}, "alpha: expected"),
        ({"tolerance": -0.01}, "tolerance: expected a number in"),
        ({"tolerance": "much"}, "tolerance: expected a number in"),
        ({"reference_days": 0}, "reference_days: expected a whole number of at least 1"),
        ({"reference_days": 40}, "no day after the 40 reference days"),
        ({"reference_days": 3, "reference": "x"}, "only one of the two"),
        ({"reference": "nowhere"}, "no such file or folder"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(calm, options, message):
    with pytest.raises(InputError, match=message):
        check(calm, **options)


def test_logs_and_references_that_cannot_be_used_are_refused(calm, tmp_path):
    with pytest.raises(InputError, match="the log has no day yet"):
        check(tmp_path)
    with pytest.raises(InputError, match="the reference lies in the log itself"):
        check(calm, reference=calm.path)
    with pytest.raises(InputError, match="the reference lies in the log itself"):
        check(calm, reference=calm.path / "2026-06-01.json")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="reference: no row has a label"):
        check(calm, reference=tmp_path / "nothing")
    unlabelled = Day.of("2026-06-05", rows(np.random.default_rng(0), 3), np.array([-1, -1, -1]))
    (tmp_path / "2026-06-05.json").write_text(json.dumps(unlabelled.to_dict()))
    with pytest.raises(InputError, match="reference: no row has a label"):
        check(calm, reference=tmp_path)
    with pytest.raises(InputError, match="no row has a label yet;"):
        check(tmp_path)
    other = Log(tmp_path / "other")
    other.add("2026-01-01", Predictions(probs=[[0.5, 0.5]], y=[0]))
    with pytest.raises(InputError, match=r"reference .*2026-01-01 has the classes 0, 1"):
        check(calm, reference=other)


def test_all_numbers_are_plain_data(drifted):
    state = json.loads(json.dumps(check(drifted).to_dict(), allow_nan=False))
    assert state["alarm"] is True
    assert state["drift"]["event"] == "top label is right"
    assert state["reference"] is None
    assert len(state["days"]) == 40
    assert check(drifted, reference_days=10).to_dict()["reference"]["rows"] == 1000
    assert state["days"][-1]["evidence"] == state["evidence"]


def test_the_page_is_whole_escaped_and_the_same_each_time(drifted, calm):
    provenance = Provenance(date="2026-11-17", command="orcu monitor check <log>")
    for log, options in ((drifted, {}), (calm, {"reference_days": 10})):
        result = check(log, **options)
        page = build(result, provenance=provenance)
        assert page == build(result, provenance=provenance)
        assert "&lt;none&gt;" in page
        assert "<none>" not in page
        assert "check &lt;log&gt;" in page
        assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/", "")
        assert page.count('<svg role="img"') == 3 + bool(options) + result.alarm
        assert ("ALARM" in page) == result.alarm


def test_the_chart_shows_evidence_and_overconfidence(drifted, tmp_path):
    result = check(drifted)
    figure = chart(result, width="column")
    above, below = figure.axes
    assert above.get_yscale() == "log"
    assert above.lines[0].get_ydata()[0] == result.limit
    assert above.lines[1].get_ydata()[-1] == pytest.approx(min(result.evidence, 1e12))
    assert len(below.lines[1].get_ydata()) == 40
    save(figure, tmp_path / "chart.png", dpi=70)
    assert (tmp_path / "chart.png").stat().st_size > 1000
    save(chart(check(filled(tmp_path / "one", 1))), tmp_path / "one.svg")
