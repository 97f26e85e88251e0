"""One registry per axis: a file that registers a thing is all it takes to add it."""

import importlib
import importlib.metadata
import inspect
import pkgutil
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from orcu.errors import InputError, PluginWarning, UnknownNameError

T = TypeVar("T", bound=Callable[..., Any])
_modules: list[str] = []  # that have registered something, in any registry: once for each thing
_warnings: set[str] = set()  # two registries may read one group, whose faults are told once


class Registry(Generic[T]):
    """Names to things of one kind, filled by decorators in the modules of ``package``.

    The modules are imported when a name is first asked for, so that registering costs nothing
    at import time and a new file is found without being listed anywhere. Modules of other distributions
    that name themselves under the entry point group ``plugins`` are imported with them.

    Args:
        kind: what the things are called in messages, such as ``"loss"``.
        package: the dotted name of the package whose modules register; ``None`` if the module
            that makes the registry also fills it.
        plugins: the group of entry points, such as ``"orcu.losses"``; ``None`` for none.

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

    def __init__(self, kind: str, package: str | None = None, plugins: str | None = None) -> None:
        self.kind = kind
        self._package, self._plugins = package, plugins
        self._things: dict[str, T] = {}
        self._origins: dict[str, tuple[str, str]] = {}
        self._complete = package is None and plugins is None
        self._reading = threading.local()

    def register(self, name: str, *, source: Any = None) -> Callable[[T], T]:
        """Decorator that files a class or function under ``name``.

        The same definition made again, as by a notebook's cell, takes the place of the older one.

        Args:
            name: what it is called in specs and on the command line.
            source: the function that the thing was made of, where it is no class or function itself.

        Raises:
            InputError: if another definition has that name.
        """

        def add(thing: T) -> T:
            origin = _origin(thing if source is None else source)
            earlier = self._origins[name] if name in self._things else origin
            if earlier != origin:
                raise InputError(
                    f"{self.kind} {name!r} is registered twice, by {'.'.join(earlier)} and by {'.'.join(origin)}; "
                    "choose another name."
                )
            self._things[name], self._origins[name] = thing, origin
            _modules.append(origin[0])
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
        known = parameters_of(thing)
        for option in options:
            if option not in known:
                raise UnknownNameError(f"option of {self.kind} {name!r}", option, known)
        for option, parameter in known.items():
            needed = parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY
            if needed and option not in options:
                raise InputError(f"{self.kind} {name!r} needs the option {option!r}.")
        return thing(**options)

    def _discover(self) -> None:
        """Import every module that registers; complete when all of them are there, not before.

        Each thread that comes too early imports for itself, and waits at the modules that another one is reading:
        Python's own locks of modules know how to avoid a deadlock, one of ours around them would not.
        """
        if self._complete or getattr(self._reading, "now", False):  # a module may ask for names while it is read
            return
        self._reading.now = True
        try:
            if self._package is not None:
                for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
                    importlib.import_module(f"{self._package}.{module.name}")
            if self._plugins is not None:
                for entry in importlib.metadata.entry_points(group=self._plugins):
                    self._load(entry)
            self._complete = True
        finally:
            self._reading.now = False

    def _load(self, entry: importlib.metadata.EntryPoint) -> None:
        """Import a plugin; one that cannot be imported or brings nothing is told, and the rest works without it."""
        known, before = entry.module in sys.modules, len(_modules)
        plugin = f"the plugin {entry.value} of the package {'?' if entry.dist is None else entry.dist.name}"
        try:
            entry.load()
        except Exception as error:
            _warn(
                f"{plugin} fails to load ({type(error).__name__}: {error}); "
                "what it registers is missing until it is mended."
            )
            return
        package = entry.module.partition(".")[0]
        # A module that was imported before has registered then: all that can be told is that its package did.
        if len(_modules) == before and not (known and package in {name.partition(".")[0] for name in _modules}):
            _warn(
                f"{plugin} registers nothing; its entry point in the group {entry.group} should name the module "
                "whose import registers."
            )


def parameters_of(thing: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What a thing can be called with; where a class hands on ``**options``, also what the next class up takes.

    Example:
        >>> class Shape:
        ...     def __init__(self, sides, *, filled=False): ...
        >>> class Square(Shape):
        ...     def __init__(self, *, width=1.0, **common): ...
        >>> list(parameters_of(Square))
        ['width', 'sides', 'filled']
    """
    parameters = dict(inspect.signature(thing).parameters)
    handed_on = [name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_KEYWORD]
    if handed_on and isinstance(thing, type):
        makers = [cls for cls in thing.__mro__ if "__init__" in vars(cls)]
        parameters |= {name: one for name, one in parameters_of(makers[1]).items() if name not in parameters}
        del parameters[handed_on[0]]
    return parameters


def _warn(text: str) -> None:
    if text not in _warnings:
        _warnings.add(text)
        warnings.warn(text, PluginWarning, stacklevel=6)


def _origin(thing: Any) -> tuple[str, str]:
    """Where a class or function was defined: its module and its name in there."""
    return str(getattr(thing, "__module__", None)), getattr(thing, "__qualname__", repr(thing))
