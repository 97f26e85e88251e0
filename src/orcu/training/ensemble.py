"""The networks of a pool as one module."""

from orcu.calibrators.pool import Pool
from orcu.models.ensemble import Ensemble
from orcu.training.cross_fitting import CrossFitted


def as_module(pool: Pool) -> Ensemble:
    """A module that answers as the pool's networks do, with their factors; trees are not in it."""
    kept = [one for one in pool.kept if isinstance(one, CrossFitted)]
    members = [network for one in kept for network in one.networks]
    return Ensemble(members, [pool.factors[one.name] / len(one.networks) for one in kept for _ in one.networks])
