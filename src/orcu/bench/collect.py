"""Collecting: the finished runs of a spec as records, sorted, without clock or host."""

from pathlib import Path
from typing import Any

from orcu.bench.plan import Plan, Planned, planned
from orcu.bench.spec import Spec

__all__ = ["Planned", "planned", "records"]


def records(spec: Spec, results: Path, *, rows: str | None = None) -> list[dict[str, Any]]:
    """One record for each finished run and calibrator: data, loss, calibrator, fold, seed, metrics.

    Args:
        spec: the benchmark.
        results: the folder of all results.
        rows: "test" or "validation" (before calibrators, which are fitted there); as in the spec by default.
    """
    return Plan(spec, results, planned(spec, results), spec.name).records(rows)
