"""Contract tests for extensions: ``check_loss``, ``check_metric``, ``check_calibrator`` and ``check_dataset``.

Each function runs the rules that hold for all losses (metrics, calibrators, data sets) of orcu. It raises
`ContractError` with the broken rules, the numbers and how to fix them. ``loss_checks``, ``metric_checks``,
``calibrator_checks`` and ``dataset_checks`` return the rules by name, for a test of each. No test runner is needed.
"""

from typing import TYPE_CHECKING, Any

from orcu.testing.calibrators import calibrator_checks, check_calibrator
from orcu.testing.contract import ContractError
from orcu.testing.datasets import check_dataset, dataset_checks
from orcu.testing.metrics import check_metric, metric_checks

if TYPE_CHECKING:
    from orcu.testing.losses import check_loss, loss_checks

__all__ = [
    "ContractError",
    "calibrator_checks",
    "check_calibrator",
    "check_dataset",
    "check_loss",
    "check_metric",
    "dataset_checks",
    "loss_checks",
    "metric_checks",
]


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name in ("check_loss", "loss_checks"):  # need torch
            from orcu.testing import losses

            return getattr(losses, name)
        raise AttributeError(f"module 'orcu.testing' has no attribute {name!r}")
