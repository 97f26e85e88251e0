"""How many threads linear algebra takes."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS takes one thread: on small matrices several wait for each other longer than they work.

    Example:
        >>> with one_thread():
        ...     pass
    """
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
