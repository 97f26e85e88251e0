"""The waist: what a model said about some rows and, where it is known, what came true.

The training half writes `Predictions`, everything that judges reads only them. ``open_predictions`` opens a file,
a folder or a frame of any model's predictions.
"""

from orcu.predictions.opening import open_predictions
from orcu.predictions.predictions import Predictions

__all__ = ["Predictions", "open_predictions"]
