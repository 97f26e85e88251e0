"""The data sets: modules with a card and a generator of rows, which register themselves."""
