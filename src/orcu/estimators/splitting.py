"""Rows have one job each: training, stopping and choosing, calibrating, or fitting sets."""

import numpy as np

from orcu.errors import InputError
from orcu.inputs import IntArray

JOBS = ("train", "validation", "calibration", "sets")
_GOLDEN = 0.6180339887498949


def rows_by_job(codes: IntArray, *, validation: float, calibration: float, seed: int) -> dict[str, IntArray]:
    """The rows of each job, each class shared out evenly; a class of one or two rows has one in training.

    Args:
        codes: labels 0..C-1.
        validation: share of the rows that stop the training and choose the scale.
        calibration: share that fits the calibrator, and again for the sets.
        seed: of the order.

    Raises:
        InputError: if a share is not from 0 to below 0.5.

    Example:
        >>> jobs = rows_by_job(np.repeat([0, 1], 50), validation=0.1, calibration=0.2, seed=0)
        >>> {job: len(rows) for job, rows in jobs.items()}
        {'train': 50, 'validation': 10, 'calibration': 20, 'sets': 20}
    """
    for name, share in (("validation", validation), ("calibration", calibration)):
        if not 0 <= share < 0.5:
            raise InputError(f"{name}_fraction: expected a share from 0 to below 0.5, got {share!r}.")
    if validation + 2 * calibration > 0.8:
        raise InputError(
            f"calibration_fraction: {validation:g} + 2 x {calibration:g} of the rows would be held back; at least a "
            "fifth must train."
        )
    order = np.random.default_rng(seed).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    # Multiples of the golden ratio spread each job evenly over the sorted rows, so over the classes.
    place = np.argsort(np.argsort((np.arange(len(codes)) * _GOLDEN) % 1.0))
    jobs, start = {}, 0
    for job, share in zip(JOBS[1:], (validation, calibration, calibration), strict=True):
        stop = start + round(share * len(codes))
        jobs[job] = np.sort(order[(place >= start) & (place < stop)])
        start = stop
    train = np.sort(order[place >= start])
    for k in set(np.unique(codes).tolist()) - set(codes[train].tolist()):
        lost = int(np.flatnonzero(codes == k)[0])
        train = np.sort(np.append(train, lost))
        jobs = {job: rows[rows != lost] for job, rows in jobs.items()}
    return {"train": train, **jobs}
