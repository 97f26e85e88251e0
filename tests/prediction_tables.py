"""Tables of predictions with ids, for tests of files and engines."""

import numpy as np
import pyarrow as pa

OPTIONS = ("--label", "label", "--probs", "p_*", "--id", "id")
COLUMNS = {"label": "label", "probs": "p_*", "id": "id"}


def table_of(rows, *, start=0, **columns):
    rng = np.random.default_rng(start)
    p = rng.dirichlet([1, 1, 1], rows)
    label = [("none", "mild", "severe")[k] for k in (rng.random(rows)[:, None] > p.cumsum(1)[:, :-1]).sum(1)]
    probs = dict(zip(("p_none", "p_mild", "p_severe"), p.T, strict=True))
    return pa.table({"id": [f"r{start + k}" for k in range(rows)], "label": label, **probs, **columns})
