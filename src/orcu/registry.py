"""One registry per axis: a file that registers a thing is all it takes to add it."""

import importlib
import inspect
import pkgutil
import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from orcu.errors import InputError, UnknownNameError

T = TypeVar("T", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Names to things of one kind, filled by decorators in the modules of ``package``.

    The modules are imported when a name is first asked for, so that registering costs nothing
    at import time and a new file is found without being listed anywhere.

    Args:
        kind: what the things are called in messages, such as ``"loss"``.
        package: the dotted name of the package whose modules register; ``None`` if the module
            that makes the registry also fills it.

    Example:
        >>> greetings = Registry("greeting")
        >>> @greetings.register("hello")
        ... def hello(name="you"):
        ...     return f"hello {name}"
        >>> greetings.names(), greetings.create("hello", name="Ada")
        (['hello'], 'hello Ada')
        >>> greetings.get("helo")
        Traceback (most recent call last):
        orcu.errors.UnknownNameError: unknown greeting 'helo'. Did you mean 'hello'? Known: hello.
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind = kind
        self._package = package
        self._things: dict[str, T] = {}
        self._lock = threading.RLock()

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files a class or function under ``name``.

        The same definition made again, as by a notebook's cell, takes the place of the older one.
        """

        def add(thing: T) -> T:
            before = self._things.get(name, thing)
            if before is not thing and _origin(before) != _origin(thing):
                raise InputError(f"{self.kind} {name!r} is registered twice; choose another name.")
            self._things[name] = thing
            return thing

        return add

    def names(self) -> list[str]:
        """All registered names, sorted."""
        self._discover()
        return sorted(self._things)

    def get(self, name: str) -> T:
        """The thing registered as ``name``.

        Raises:
            UnknownNameError: if there is none; the text offers the nearest name.
        """
        self._discover()
        if name not in self._things:
            raise UnknownNameError(self.kind, name, self.names())
        return self._things[name]

    def create(self, spec: str | Mapping[str, Any], /, **options: Any) -> Any:
        """Call the thing that ``spec`` names.

        Args:
            spec: a name, or a table of the name and its options as a TOML file gives it:
                ``{"name": "huber", "delta": 2.0}``.
            options: further options; those in the table win.

        Raises:
            UnknownNameError: if the name or one of the options does not exist.
            InputError: if a table has no name, or an option that has to be given is missing.
        """
        name = spec
        if isinstance(spec, Mapping):
            if "name" not in spec:
                raise InputError(f"{self.kind}: the table {dict(spec)!r} needs a 'name'.")
            options |= spec
            name = options.pop("name")
        thing = self.get(str(name))
        known = list(inspect.signature(thing).parameters)
        for option in options:
            if option not in known:
                raise UnknownNameError(f"option of {self.kind} {name!r}", option, known)
        for option, parameter in inspect.signature(thing).parameters.items():
            needed = parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY
            if needed and option not in options:
                raise InputError(f"{self.kind} {name!r} needs the option {option!r}.")
        return thing(**options)

    def _discover(self) -> None:
        if self._package is None:
            return
        with self._lock:  # a second thread waits until all modules are there
            package, self._package = (self._package, None)  # a module may ask for names while it is read
            if package is not None:
                try:
                    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
                        importlib.import_module(f"{package}.{module.name}")
                except BaseException:
                    self._package = package
                    raise


def _origin(thing: Any) -> tuple[Any, Any]:
    """Where a class or function was defined; other things are their own origin."""
    return getattr(thing, "__module__", None), getattr(thing, "__qualname__", thing)
