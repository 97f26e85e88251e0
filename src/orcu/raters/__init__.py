"""Several raters per case: votes, agreement and models of raters."""

from orcu.raters.agreement import Agreement, PairAgreement, agreement, krippendorff_alpha
from orcu.raters.latent import RaterEstimate, RaterModel
from orcu.raters.votes import Ratings, as_votes, expand_votes, label_shares

__all__ = [
    "Agreement",
    "PairAgreement",
    "RaterEstimate",
    "RaterModel",
    "Ratings",
    "agreement",
    "as_votes",
    "expand_votes",
    "krippendorff_alpha",
    "label_shares",
]
