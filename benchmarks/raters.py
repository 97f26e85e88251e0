"""Training on the votes of several raters compared with training on their majority grade.

    python benchmarks/raters.py --root FOLDER_OF_VADER [--source words tweets amazon] [--write docs/results]

Words and texts of VADER with ten or more ratings from -4 to 4; features of a frozen MiniLM. Each model is fitted on the
shares of the votes and on the majority grade of the same rows, in five folds whose texts of a document stay together.
The score is the expected ranked probability score (RPS) of a random vote of a held-out text. The interval of the
difference is a percentile interval of 2,000 resamples of the documents, paired, with the models fixed.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from orcu import OrdinalClassifier
from orcu.data.base import DATASETS, Dataset
from orcu.inputs import FloatArray, IntArray
from orcu.io.writing import write_table
from orcu.model_selection import cross_fit_folds
from orcu.models.text import TextEncoder
from orcu.raters.votes import label_shares, majority_grade

FOLDS, RESAMPLES = 5, 2000


def load_texts(root: Path, source: str) -> tuple[FloatArray, FloatArray, IntArray]:
    """Features, votes and document of each text; the words of the lexicon come from the package vaderSentiment."""
    dataset: Dataset = DATASETS.create("vader_words") if source == "words" else DATASETS.create("vader", source=source)
    rows = list(dataset.rows(dataset.root() or root))
    codes = [[dataset.rating_code(rating) for rating in row.extra["ratings"]] for row in rows]
    votes = np.stack([np.bincount(votes_of_row, minlength=len(dataset.classes)) for votes_of_row in codes])
    _, document = np.unique([row.cluster or row.id for row in rows], return_inverse=True)
    encoder = TextEncoder("minilm").eval()
    tokens = encoder.tokenize([str(row.text) for row in rows])
    with torch.no_grad():
        parts = [encoder(encoder.batch(tokens[start : start + 256])) for start in range(0, len(tokens), 256)]
    return torch.cat(parts).double().numpy(), votes.astype(np.float64), document


def expected_rps(probs: FloatArray, votes: FloatArray) -> FloatArray:
    """Expected ranked probability score of a random vote of each case: sum_k (F - G)^2 + G (1 - G)."""
    predicted, voted = (np.cumsum(shares, axis=1)[:, :-1] for shares in (probs, label_shares(votes)))
    return ((predicted - voted) ** 2 + voted * (1 - voted)).sum(axis=1)


def paired_interval(difference: FloatArray, cluster: IntArray, seed: int = 0) -> tuple[float, float]:
    """95 % interval of the mean of a difference, by resampling clusters."""
    sums, counts = np.bincount(cluster, weights=difference), np.bincount(cluster)
    drawn = np.random.default_rng(seed).integers(len(sums), size=(RESAMPLES, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def compare(root: Path, source: str, **options: Any) -> list[dict[str, Any]]:
    """RPS of both trainings in each fold, and in all folds together with the interval of the difference."""
    features, votes, document = load_texts(root, source)
    majority = majority_grade(votes)
    scores = {"votes": np.empty(len(votes)), "majority": np.empty(len(votes))}
    rows = []
    for fold in cross_fit_folds(majority, FOLDS, early_stopping=0, groups=document):
        for name, y in (("votes", votes), ("majority", majority)):
            model = OrdinalClassifier(classes=range(votes.shape[1]), random_state=0, n_jobs=1, verbose=-1, **options)
            model.fit(features[fold.train], y[fold.train], groups=document[fold.train])
            scores[name][fold.test] = expected_rps(model.predict_proba(features[fold.test]), votes[fold.test])
        difference = scores["votes"][fold.test] - scores["majority"][fold.test]
        low, high = paired_interval(difference, np.unique(document[fold.test], return_inverse=True)[1])
        rows.append(_row(source, fold.number, len(fold.test), votes[fold.test], scores, fold.test, low, high))
        print(rows[-1], flush=True)
    every_row = np.arange(len(votes))
    low, high = paired_interval(scores["votes"] - scores["majority"], document)
    rows.append(_row(source, None, len(votes), votes, scores, every_row, low, high))
    print(rows[-1], flush=True)
    return rows


def _row(
    source: str,
    fold: int | None,
    texts: int,
    votes: FloatArray,
    scores: dict[str, FloatArray],
    rows: IntArray,
    low: float,
    high: float,
) -> dict[str, Any]:
    """A row of the results; the floor is the score of a model that predicts the shares of the votes themselves."""
    by_votes, by_majority = (float(scores[name][rows].mean()) for name in ("votes", "majority"))
    return {
        "data": f"vader {source}",
        "fold": fold,
        "texts": texts,
        "rps_votes": by_votes,
        "rps_majority": by_majority,
        "difference": by_votes - by_majority,
        "low": low,
        "high": high,
        "floor": float(expected_rps(label_shares(votes), votes).mean()),
    }


def main() -> None:
    """Compare both trainings, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="folder of VADER's ground truth")
    parser.add_argument("--source", nargs="+", default=["words"], help="words, tweets, movies, amazon, nyt")
    parser.add_argument("--write", type=Path, help="folder of rater_training.parquet")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for source in options.source for row in compare(options.root, source)]
    if options.write:
        write_table(pa.Table.from_pylist(rows), options.write / "rater_training.parquet")


if __name__ == "__main__":
    main()
