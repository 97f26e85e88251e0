"""The data sets, one file each: a card and a generator of rows. A new file is found by itself."""
