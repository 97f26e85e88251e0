"""What docs/comparison.md says of other libraries, held against the versions that are installed."""

import importlib.util
import json
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UPDATE = "run benchmarks/peers.py and mend docs/comparison.md"


@pytest.fixture(scope="module")
def peers():
    return _peers()


def _peers():
    if "peers_benchmark" not in sys.modules:
        spec = importlib.util.spec_from_file_location("peers_benchmark", ROOT / "benchmarks" / "peers.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    return sys.modules["peers_benchmark"]


def installed(peer):
    number = _peers().version(peer) if peer != "copies" else ""
    if number is None:
        pytest.skip(f"{peer} is not installed; benchmarks/peers.py tries it")
    return f"{peer} {number}"


@pytest.mark.parametrize("peer", _peers().PEERS, ids=lambda peer: peer.name)
def test_a_peer_has_what_the_table_says_and_has_not_what_it_says(peers, peer):
    who = installed(peer.name)
    assert not peers.surprises(peer), f"{who} has changed: {UPDATE}"


CASES = [pytest.param(one, id=one.run.__name__, marks=[pytest.mark.slow] * one.slow) for one in _peers().CASES]


@pytest.mark.parametrize("case", CASES)
def test_a_peers_answer_is_still_another_one_and_ours_is_right(peers, case, monkeypatch):
    who = installed(case.peer)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # slow cases take the data of a neighbour
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        outcome = case.run()
    assert peers.agree(outcome.ours, outcome.expected), f"{case.what}: {outcome}"
    assert not peers.agree(outcome.theirs, outcome.expected), f"{who} has mended it ({case.what}): {UPDATE}"


def test_a_value_agrees_within_one_percent_and_nan_never_does(peers):
    assert peers.agree(1.005, 1.0)
    assert not peers.agree(1.02, 1.0)
    assert not peers.agree(float("nan"), 1.0)
    assert peers.agree(peers.REFUSED, peers.REFUSED)
    assert not peers.agree(0.5, peers.REFUSED)


def test_a_surprise_is_told(peers):
    wrong = peers.Peer("orcu", "orcu.metrics", "", "", ("no_such_name",), "^unimodality$")
    assert peers.surprises(wrong) == ["no_such_name is gone", "unimodality is there"]


def test_the_kept_run_has_every_peer_and_every_case(peers):
    kept = json.loads((ROOT / "docs" / "results" / "peers.json").read_text(encoding="utf-8"))
    assert {one["name"] for one in kept["peers"]} | set(kept["left out"]) == {peer.name for peer in peers.PEERS}
    assert not any(one["surprises"] for one in kept["peers"])
    known = {(one.peer, one.what, one.why, one.kind) for one in peers.CASES}
    assert {(one["peer"], one["what"], one["why"], one["kind"]) for one in kept["cases"]} == known
    assert all(one["still so"] and one["ours right"] for one in kept["cases"])
