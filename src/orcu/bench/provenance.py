"""Where the numbers of a table come from: spec, runs, seeds and versions, without dates and paths."""

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcu.bench.plan import Plan

PACKAGES = ("orcu", "torch", "numpy", "scipy", "scikit-learn", "lightgbm", "timm", "transformers")


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that runs and tables depend on; packages that are absent are left out.

    Example:
        >>> "numpy" in package_versions()
        True
    """
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def provenance(plan: "Plan") -> dict[str, str]:
    """Spec, runs, seeds and versions of a table.

    Args:
        plan: plan whose finished runs are shown.
    """
    from orcu.bench.store import Store

    spec, store = plan.spec, Store(plan.results)
    seeds = {run.job.seed for run in plan.finished}
    recorded = {_text(store.versions(str(run.id))) for run in plan.finished}
    return {
        "spec": spec.name,
        **({"set in all runs": spec.set_options.strip()} if spec.overrides else {}),
        "runs": f"{len(plan.finished)} of {len(plan.runs)}",
        "seeds": " ".join(map(str, sorted(seeds))),
        "versions of the runs": " or ".join(sorted(text or "not recorded" for text in recorded)),
        "versions of the table": _text(package_versions()),
    }


def _text(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())
