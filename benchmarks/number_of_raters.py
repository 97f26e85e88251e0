"""Scores against the votes of 1, 2, 5 and 10 raters: are they the same, and do their intervals cover?

    python benchmarks/number_of_raters.py [--simulations 400] [--write docs/results/number_of_raters.parquet]

1. Words of the VADER lexicon, each rated by ten people. A logistic regression on letter n-grams predicts each word out
   of fold. Its scores are estimated with the first 1, 2, 5 and 10 of the raters of each word, in random order.
2. Simulation: the distribution of each word's votes is its smoothed histogram, from which 1, 2, 5 or 10 votes are drawn
   for 800 random words. The table has the share of 95 % intervals that contain the value of all words.
"""

import argparse
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from orcu import Evaluation, data, evaluate, geometry
from orcu.inputs import FloatArray, IntArray
from orcu.io.writing import write_table

RATERS = (1, 2, 5, 10)
OUTER, NUM_CLASSES = 3, 7  # ratings of -4 and 4 count as -3 and 3, as in the data set vader_words
WORDS = 800  # words of a simulated evaluation
PRIOR = 0.2  # added to each vote count of the simulated truth
SCORES = ("accuracy", "mae", "qwk", "ece", "sce", "rps", "brier", "nll")


def lexicon() -> tuple[list[str], IntArray]:
    """Words, and their ten ratings as classes 0..6, shape (n, 10)."""
    rows = list(data.create("vader_words").rows(Path(str(files("vaderSentiment")))))
    ratings = np.array([row.extra["ratings"] for row in rows])
    return [str(row.text) for row in rows], np.clip(ratings, -OUTER, OUTER) + OUTER


def predictions(words: list[str], ratings: IntArray) -> FloatArray:
    """Out-of-fold probabilities, trained on the first rating of each word."""
    model = make_pipeline(
        TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), min_df=3),
        TruncatedSVD(100, random_state=0),
        LogisticRegression(max_iter=500),
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)  # the words are in alphabetical order
    return cross_val_predict(model, words, ratings[:, 0], cv=folds, method="predict_proba")


def counts(ratings: IntArray) -> FloatArray:
    """Votes for each class, shape (n, C)."""
    return np.stack([(ratings == k).sum(axis=1) for k in range(NUM_CLASSES)], axis=1).astype(np.float64)


def estimates(evaluation: Evaluation) -> dict[str, tuple[float, float, float]]:
    """Value and interval of each score, and of what raters reach if cases have two votes."""
    rows = {name: evaluation[name] for name in SCORES}
    for ceiling in () if evaluation.raters is None else evaluation.raters.ceilings:
        if ceiling.metric in ("accuracy", "rps"):
            rows[f"one rater, {ceiling.metric}"] = ceiling.single_rater
            if ceiling.metric == "rps":
                rows["perfect model, rps"] = ceiling.perfect_optimistic
                rows["excess rps"] = evaluation.raters.distances["rps_excess"]
    return {name: (estimate.value, estimate.low, estimate.high) for name, estimate in rows.items()}


def by_number_of_raters(probs: FloatArray, ratings: IntArray) -> dict[int, dict[str, tuple[float, float, float]]]:
    """Estimates with the first raters of each word; the order of the raters is random."""
    shuffled = np.random.default_rng(0).permuted(ratings, axis=1)
    return {m: estimates(evaluate(probs=probs, y=counts(shuffled[:, :m]))) for m in RATERS}


def coverage(probs: FloatArray, ratings: IntArray, simulations: int) -> dict[int, dict[str, float]]:
    """Share of the intervals that contain the value of all words, by number of raters."""
    truth = counts(ratings) + PRIOR
    truth /= truth.sum(axis=1, keepdims=True)
    below, difference = geometry.cumulative(truth), geometry.cumulative(probs) - geometry.cumulative(truth)
    exact = {name: evaluate(probs=probs, y=truth, n_resamples=0)[name].value for name in SCORES}
    spread = float((below * (1 - below)).sum(axis=1).mean())
    exact |= {"one rater, accuracy": float((truth**2).sum(axis=1).mean()), "one rater, rps": 2 * spread}
    exact |= {"perfect model, rps": spread, "excess rps": float((difference**2).sum(axis=1).mean())}
    rng, shares = np.random.default_rng(1), {}
    for m in RATERS:
        hits: dict[str, list[bool]] = {}
        for simulation in range(simulations):
            chosen = rng.integers(len(probs), size=WORDS)
            votes = rng.multinomial(m, truth[chosen]).astype(np.float64)
            evaluation = evaluate(probs=probs[chosen], y=votes, n_resamples=400, random_state=simulation)
            for name, (_, low, high) in estimates(evaluation).items():
                hits.setdefault(name, []).append(low <= exact[name] <= high)
        shares[m] = {name: float(np.mean(inside)) for name, inside in hits.items()}
    return shares


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    words, ratings = lexicon()
    probs = predictions(words, ratings)
    tables = by_number_of_raters(probs, ratings)
    shares = coverage(probs, ratings, options.simulations)
    rows = []
    print(f"{len(words):,} words")
    for name in tables[RATERS[-1]]:
        for m in RATERS:
            value, low, high = tables[m].get(name, (np.nan, np.nan, np.nan))
            rows.append(
                {"score": name, "raters": m, "value": value, "low": low, "high": high}
                | {"coverage": shares[m].get(name, np.nan), "simulations": options.simulations, "words": len(words)}
            )
            print(f"{name:22s} {m:3d}  {value:.4f} ({low:.4f} to {high:.4f})  coverage {rows[-1]['coverage']:.3f}")
    if options.write is not None:
        write_table(pa.Table.from_pylist(rows), options.write)


if __name__ == "__main__":
    main()
