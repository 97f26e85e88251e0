"""Statements of docs/comparison.md about other libraries, checked against the installed versions."""

import importlib.util
import json
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UPDATE = "run benchmarks/peers.py and update docs/comparison.md"


@pytest.fixture(scope="module")
def peers():
    return _peers()


def _peers():
    if "peers_benchmark" not in sys.modules:
        spec = importlib.util.spec_from_file_location("peers_benchmark", ROOT / "benchmarks" / "peers.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look up their module
        spec.loader.exec_module(module)
    return sys.modules["peers_benchmark"]


def installed(peer):
    number = _peers().version(peer) if peer != "copies" else ""
    if number is None:
        pytest.skip(f"{peer} is not installed")
    return f"{peer} {number}"


@pytest.mark.parametrize("peer", _peers().PEERS, ids=lambda peer: peer.name)
def test_peer_features_are_as_in_the_table(peers, peer):
    name = installed(peer.name)
    assert not peers.changes(peer), f"{name} has changed: {UPDATE}"


CASES = [pytest.param(case, id=case.run.__name__, marks=[pytest.mark.slow] * case.slow) for case in _peers().CASES]


@pytest.mark.parametrize("case", CASES)
def test_peer_value_still_differs_and_orcu_value_is_correct(peers, case, monkeypatch):
    name = installed(case.peer)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # slow cases import the data of another script
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other library
        outcome = case.run()
    assert peers.agree(outcome.orcu_value, outcome.expected), f"{case.what}: {outcome}"
    assert not peers.agree(outcome.peer_value, outcome.expected), f"{name} has fixed it ({case.what}): {UPDATE}"


def test_agree_within_one_percent_and_never_for_nan(peers):
    assert peers.agree(1.005, 1.0)
    assert not peers.agree(1.02, 1.0)
    assert not peers.agree(float("nan"), 1.0)
    assert peers.agree(peers.REFUSED, peers.REFUSED)
    assert not peers.agree(0.5, peers.REFUSED)


def test_changes_lists_removed_and_added_names(peers):
    wrong = peers.Peer("orcu", "orcu.metrics", "", "", ("no_such_name",), "^unimodality$")
    assert peers.changes(wrong) == ["no_such_name was removed", "unimodality was added"]


def test_stored_results_have_every_peer_and_every_case(peers):
    stored = json.loads((ROOT / "docs" / "results" / "peers.json").read_text(encoding="utf-8"))
    names = {row["name"] for row in stored["peers"]} | set(stored["not_installed"])
    assert names == {peer.name for peer in peers.PEERS}
    features = {(row["name"], row["features"], row["missing"]) for row in stored["peers"]}
    assert features <= {(peer.name, peer.features, peer.missing) for peer in peers.PEERS}
    assert not any(row["changes"] for row in stored["peers"])
    cases = {(case.peer, case.what, case.why, case.kind) for case in peers.CASES}
    assert {(row["peer"], row["what"], row["why"], row["kind"]) for row in stored["cases"]} == cases
    assert all(row["reproduced"] and row["orcu_correct"] for row in stored["cases"])
