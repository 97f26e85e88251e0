"""``python -m orcu`` is the ``orcu`` command."""

from orcu.cli import process

process()
