"""Cross-entropy against a table of soft targets: what CE, label smoothing and SORD have in common."""

from typing import Any

from orcu.kernels.terms import ClassFirst, Term, soft_cross_entropy
from orcu.losses.closed_form import ClosedFormLoss


class SoftTargetLoss(ClosedFormLoss):
    """-sum_k t_k log p_k, with row y of the table ``targets`` as t; a subclass adds the table."""

    def terms(self, batch: ClassFirst, y: Any) -> dict[str, Term]:
        """The cross-entropy; its gradient is p - t (Eq. 62)."""
        return {self.term: soft_cross_entropy(batch, self.columns("targets", batch, y))}
