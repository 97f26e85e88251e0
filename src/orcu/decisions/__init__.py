"""What to do with a distribution: decide for a class, or for a set of classes that keeps its promise."""
