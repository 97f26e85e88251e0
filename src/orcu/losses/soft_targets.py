"""Cross-entropy against a table of soft targets: what CE, label smoothing and SORD have in common."""

from torch import Tensor

from orcu.losses.closed_form import ClassFirst, ClosedFormLoss, Term


class SoftTargetLoss(ClosedFormLoss):
    """-sum_k t_k log p_k, with row y of the table ``targets`` as t; a subclass adds the table."""

    def terms(self, batch: ClassFirst, y: Tensor) -> dict[str, Term]:
        """The cross-entropy; its gradient is p - t (Eq. 62)."""
        targets = self.columns("targets", batch, y)
        value = -(targets * batch.log_probs).sum(0)
        return {self.term: Term(value, lambda: batch.probs - targets)}
