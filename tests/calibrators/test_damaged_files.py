"""Damaged and tampered files of calibrators and prediction sets: an `InputError`, or the same valid predictions."""

import copy
import json
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from orcu import OrdinalPredictionSets, calibrators
from orcu.calibrators import CalibrationWarning, Chain, GroupedCalibration
from orcu.decisions.conformal import CrossConformalSets
from orcu.errors import InputError
from orcu.io.files import with_digest

N_MUTATIONS = 40  # per file, of 18 files
VALUES = (1e308, -1e308, 10**400, -(10**400), float("nan"), float("inf"), -1, 0, 0.5, 3, True, None, "x", "0.5", [], {})
VALUES += ([[1.0]], [0.1, 0.2, 0.3], {"a": 1}, 1e-320)


def sample(rows=200, num_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    logits = -((np.arange(num_classes) - rng.uniform(-0.5, num_classes - 0.5, size=(rows, 1))) ** 2)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random((rows, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return 2 * logits + rng.normal(scale=0.2, size=logits.shape), y, p


Z, Y, P = sample()
SITE = np.array(["north", "south"])[np.arange(len(Y)) % 2]


def fitted_calibrators():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        yield from (
            (name, calibrators.create(name)) for name in calibrators.names() if name not in ("chain", "grouped")
        )
        yield "grid", calibrators.create("temperature", search="grid")
        yield "logits", calibrators.create("dirichlet", on="logits")
        yield "penalties", calibrators.create("dirichlet", off_diagonal=0.1, bias=0.1)
        yield "chain", Chain("gap", {"name": "ordinal_dirichlet", "band": 1}, "projection")
        yield "grouped", GroupedCalibration("temperature")


@cache
def calibrator_states():
    """Data of every calibrator, fitted, by name."""
    states = {}
    scaled = Z * np.where(SITE == "north", 1.0, 5.0)[:, None]
    for name, calibrator in fitted_calibrators():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            options = {"subgroup": SITE} if name == "grouped" else {}
            calibrator.fit(scaled if name == "grouped" else Z, Y, ids=range(len(Y)), **options)
        states[name] = json.loads(json.dumps(calibrator.to_dict()))
    return states


def set_states(tmp_path):
    for name, (options, columns) in {
        "marginal": ({}, {}),
        "class-conditional": ({"class_conditional": True}, {}),
        "subgroups": ({}, {"subgroup": SITE}),
        "clusters": ({}, {"groups": np.arange(len(Y)) // 4}),
    }.items():
        yield name, OrdinalPredictionSets(**options).fit(P, Y, ids=range(len(Y)), **columns).to_dict()
    CrossConformalSets().fit(P, Y, fold=np.arange(len(Y)) % 4).save(tmp_path / "cross.json")
    state = json.loads((tmp_path / "cross.json").read_text())
    state.pop("sha256")
    yield "cross", state


def paths(node, path=()):
    """Paths of all values, without those below the list of ids."""
    if path:
        yield path
    if path[-1:] == ("ids",):
        return
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        yield from paths(value, (*path, key))


def mutate(state, rng):
    """A copy with one value replaced, removed, repeated or exchanged, and a description."""
    damaged = copy.deepcopy(state)
    every = list(paths(damaged))
    *parents, key = every[rng.integers(len(every))]
    node = damaged
    for parent in parents:
        node = node[parent]
    kind = rng.choice(["replace", "replace", "replace", "remove", "repeat", "exchange"])
    if kind == "remove":
        del node[key]
    elif kind == "repeat" and isinstance(node, list):
        node.append(node[key])
    elif kind == "exchange":
        *others, other_key = every[rng.integers(len(every))]
        source = state
        for parent in others:
            source = source[parent]
        node[key] = copy.deepcopy(source[other_key])
    else:
        node[key] = VALUES[rng.integers(len(VALUES))]
    return damaged, (*parents, key)


def read_calibrator(state):
    loaded = calibrators.from_dict(state)
    repr(loaded)
    loaded.to_dict()
    options = {"subgroup": SITE} if getattr(loaded, "accepts_subgroup", False) else {}
    for logits in (Z, 1e300 * Z):
        logits = logits[:, : getattr(loaded, "num_classes_", 3)]
        probs = loaded.predict_proba(logits, **options)
        assert np.isfinite(loaded.predict_logits(logits, **options)).all()
        assert (probs >= 0).all()
        assert probs.sum(axis=1) == pytest.approx(1, abs=1e-9)


def read_sets(state, path):
    if state.get("prediction_sets") == "cross":
        path.write_text(json.dumps(state))
        low, high = CrossConformalSets.load(path).predict(np.stack([P] * len(state["scores"])))
    else:
        loaded = OrdinalPredictionSets.from_dict(state)
        repr(loaded)
        loaded.to_dict()
        low, high = loaded.predict(P, subgroup=SITE)
    assert ((low >= 0) & (low <= high) & (high < 3)).all()


@pytest.mark.filterwarnings("ignore::orcu.calibrators.CalibrationWarning")
def test_reading_mutated_files_raises_input_error_or_predicts_distributions(tmp_path):
    rng = np.random.default_rng(0)
    readers = [(name, state, read_calibrator) for name, state in calibrator_states().items()]
    readers += [(name, state, partial(read_sets, path=tmp_path / "s.json")) for name, state in set_states(tmp_path)]
    refused = 0
    for name, state, read in readers:
        read(state)
        for _ in range(N_MUTATIONS):
            damaged, path = mutate(state, rng)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)  # overflow in numpy
                    read(damaged)
            except InputError:
                refused += 1
            except Exception as error:
                raise AssertionError(f"{name}: {path} of {damaged}") from error
    assert refused > 0.6 * N_MUTATIONS * len(readers)


@pytest.mark.parametrize("name", ["temperature", "dirichlet", "chain", "grouped", "auto"])
def test_load_of_a_changed_calibrator_file_is_refused_by_its_digest(name, tmp_path):
    state = with_digest(calibrator_states()[name])
    path, rng = tmp_path / "c.json", np.random.default_rng(1)
    path.write_text(json.dumps(state))
    expected = calibrators.load(path).to_dict()
    for _ in range(40):
        damaged, where = mutate(state, rng)
        if where == ("sha256",) or json.dumps(damaged, sort_keys=True) == json.dumps(state, sort_keys=True):
            continue
        path.write_text(json.dumps(damaged))
        with pytest.raises(InputError, match=r"c\.json: "):
            calibrators.load(path)
    unsigned = {key: value for key, value in state.items() if key != "sha256"}
    path.write_text(json.dumps(unsigned))
    assert calibrators.load(path).to_dict() == expected  # files of 0.2 have no digest


def test_load_of_changed_prediction_sets_is_refused_by_their_digest(tmp_path):
    path = tmp_path / "s.json"
    OrdinalPredictionSets().fit(P, Y).save(path)
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"thresholds": [0.5] * 3}))
    with pytest.raises(InputError, match="digest"):
        OrdinalPredictionSets.load(path)


@pytest.mark.parametrize("text", ["1" * 5000, '{"calibrator": "gap", "state_version": ' + "9" * 5000 + "}"])
def test_load_of_a_file_with_thousands_of_digits_is_refused(text, tmp_path):
    (tmp_path / "c.json").write_text(text)
    for load in (calibrators.load, OrdinalPredictionSets.load, CrossConformalSets.load):
        with pytest.raises(InputError, match=r"c\.json: "):
            load(tmp_path / "c.json")


def damaged_state(name, *path, value):
    state = copy.deepcopy(calibrator_states()[name])
    node = state
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return state


@pytest.mark.parametrize(
    ("name", "path", "value", "words"),
    [
        ("temperature", ("state", "temperature"), 10**400, "temperature"),
        ("temperature", ("state", "temperature"), True, "temperature"),
        ("temperature", ("options", "search"), "guess", "search"),
        ("temperature", ("classes",), ["a", "b"], "num_classes is 3"),
        ("temperature", ("fitted_on", "count"), 7, "200 ids for 7 rows"),
        ("vector", ("state", "bias", 0), 1e308, "bias"),
        ("vector", ("state", "bias", 0), "0.5", "bias: expected numbers"),
        ("dirichlet", ("options", "on"), "probs", "on of Dirichlet"),
        ("gap", ("state", "log_parameters", -1), 6.0, "log_parameters"),
        ("auto", ("state", "weights", "gap"), "0.3", "weights.gap"),
        ("chain", ("state", "steps"), [], "steps"),
        ("grouped", ("state", "adjustments", "north"), [700.0, 0.0], "adjustments.north"),
        ("grouped", ("state", "adjustments"), {}, "adjustments"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_from_dict_names_the_damaged_value(name, path, value, words):
    with pytest.raises(InputError, match=words):
        calibrators.from_dict(damaged_state(name, *path, value=value))


def test_prediction_sets_from_dict_refuses_inconsistent_thresholds():
    state = OrdinalPredictionSets().fit(P, Y).to_dict()
    for damage, words in (
        ({"thresholds": [0.5, 0.6, 0.7]}, "same for all classes"),
        ({"thresholds": [1e308] * 3}, "thresholds"),
        ({"thresholds": [10**400] * 3}, "thresholds"),
        ({"subgroups": {"north": 0.4}}, "state_version"),
        ({"classes": ["a", "b"]}, "num_classes is 3"),
    ):
        with pytest.raises(InputError, match=words):
            OrdinalPredictionSets.from_dict(state | damage)


def test_chain_and_grouped_calibration_refuse_what_is_no_calibrator():
    for wrong in (Chain(3), Chain(steps="gap"), GroupedCalibration(3)):
        with pytest.raises(InputError, match="steps|calibrator"):
            wrong.fit(Z, Y)


def test_files_of_0_2_have_no_digest():
    folder = Path(__file__).parents[1] / "data" / "written_by_0_2"
    assert "sha256" not in json.loads((folder / "prediction_sets.json").read_text())
