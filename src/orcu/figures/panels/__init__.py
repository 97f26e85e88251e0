"""The figures, one file each: a function ``data`` from results to plain arrays, and ``draw(ax, ...)`` for one panel.

Those that are whole figures of the paper's kinds also register a class by the file's own name; the others are parts of
the report.
"""
