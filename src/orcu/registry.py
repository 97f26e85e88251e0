"""Registries of losses, metrics, calibrators and other components, filled by decorators and plugins."""

import importlib
import importlib.metadata
import inspect
import pkgutil
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from orcu.errors import InputError, PluginWarning, UnknownNameError

T = TypeVar("T", bound=Callable[..., Any])
_modules: list[str] = []  # module of each registered component, in all registries
_issued_warnings: set[str] = set()  # two registries may read the same group of plugins


class Registry(Generic[T]):
    """Components of one kind by name, filled by decorators in the modules of ``package``.

    The modules are imported at the first lookup, so registering costs nothing at import time, and a new module needs no
    entry in a list. Modules whose name starts with an underscore are not imported. Plugins, which are modules of other
    distributions under the entry point group ``plugins``, are imported too.

    Args:
        kind: name of a component in messages, such as ``"loss"``.
        package: dotted name of the package whose modules register components; ``None`` if the module that makes the
            registry also fills it.
        plugins: entry point group, such as ``"orcu.losses"``; ``None`` for no plugins.

    Example:
        >>> greetings = Registry("greeting")
        >>> @greetings.register("hello")
        ... def hello(name="you"):
        ...     return f"hello {name}"
        >>> greetings.names(), greetings.create("hello", name="Ada")
        (['hello'], 'hello Ada')
        >>> greetings.get("helo")
        Traceback (most recent call last):
        orcu.errors.UnknownNameError: unknown greeting 'helo'. Did you mean 'hello'? Available: hello.
    """

    def __init__(self, kind: str, package: str | None = None, plugins: str | None = None) -> None:
        self.kind = kind
        self._package, self._plugins = package, plugins
        self._components: dict[str, T] = {}
        self._origins: dict[str, tuple[str, str]] = {}
        self._failures: dict[str, str] = {}  # messages about plugins that cannot be loaded, by their names
        self._complete = package is None and plugins is None
        self._discovery = threading.local()

    def register(self, name: str, *, source: Any = None) -> Callable[[T], T]:
        """Return a decorator that registers a class or function.

        A definition with the same module and name replaces the earlier one, as when a notebook cell is run again.

        Args:
            name: name of the component in specs and on the command line.
            source: function from which the component was made, if the component is not a class or function.

        Raises:
            InputError: if another definition has that name.
        """

        def add(component: T) -> T:
            origin = _origin(component if source is None else source)
            earlier = self._origins[name] if name in self._components else origin
            if earlier != origin:
                raise InputError(
                    f"duplicate {self.kind} {name!r}, registered by {'.'.join(earlier)} and by {'.'.join(origin)}. "
                    "Choose another name."
                )
            self._components[name], self._origins[name] = component, origin
            _modules.append(origin[0])
            return component

        return add

    def names(self) -> list[str]:
        """Return all registered names, sorted."""
        self._discover()
        return sorted(self._components)

    def get(self, name: str) -> T:
        """Return the component with a name.

        Raises:
            UnknownNameError: if the name does not exist; the message suggests the closest one.
            InputError: if it is the name of a plugin that cannot be loaded.
        """
        self._discover()
        if name not in self._components and name in self._failures:
            raise InputError(f"{self.kind} {name!r}: {self._failures[name]}")
        if name not in self._components:
            raise UnknownNameError(self.kind, name, self.names())
        return self._components[name]

    def create(self, spec: str | Mapping[str, Any], /, **options: Any) -> Any:
        """Call the component that ``spec`` names.

        Args:
            spec: name, or a table with the name and options as in a TOML file: ``{"name": "huber", "delta": 2.0}``.
            options: further options; those of the table take precedence.

        Raises:
            UnknownNameError: if the name or an option does not exist.
            InputError: if a table has no name, or a required option is missing.
        """
        name = spec
        if isinstance(spec, Mapping):
            if "name" not in spec:
                raise InputError(f"{self.kind}: the table {dict(spec)!r} needs a 'name'.")
            options |= spec
            name = options.pop("name")
        return construct(self.kind, str(name), self.get(str(name)), options)

    def _discover(self) -> None:
        """Import every module that registers components.

        Each thread imports for itself until the registry is complete. It waits for modules that another thread is
        importing; Python's locks of modules avoid a deadlock, which a lock here could not.
        """
        if self._complete or getattr(self._discovery, "active", False):  # a module may look up names while imported
            return
        self._discovery.active = True
        try:
            if self._package is not None:
                for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
                    if not module.name.startswith("_"):
                        importlib.import_module(f"{self._package}.{module.name}")
            if self._plugins is not None:
                for entry in importlib.metadata.entry_points(group=self._plugins):
                    if failure := _load_plugin(entry):
                        self._failures[entry.name] = failure
            self._complete = True
        finally:
            self._discovery.active = False


def _load_plugin(entry: importlib.metadata.EntryPoint) -> str:
    """Import a plugin, and warn if the import fails or registers nothing; returns the message of a failure."""
    imported_before, count = entry.module in sys.modules, len(_modules)
    plugin = f"the plugin {entry.value} of the package {'?' if entry.dist is None else entry.dist.name}"
    try:
        entry.load()
    except (Exception, SystemExit) as error:  # sys.exit in a plugin must not end the command
        message = (
            f"{plugin} cannot be loaded ({type(error).__name__}: {error}); its components are unavailable until it is "
            "fixed."
        )
        _warn(message)
        return message
    package = entry.module.partition(".")[0]
    # A module that was imported before has registered then; only its package is known.
    registered_before = imported_before and package in {name.partition(".")[0] for name in _modules}
    if len(_modules) == count and not registered_before:
        _warn(
            f"{plugin} registers nothing. Its entry point in the group {entry.group} should name the module that "
            "registers components when imported."
        )
    return ""


def construct(kind: str, name: str, component: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Call a component with options, after a check of their names.

    Raises:
        UnknownNameError: if an option does not exist.
        InputError: if a required option is missing.
    """
    parameters = accepted_parameters(component)
    for option in options:
        if option not in parameters:
            raise UnknownNameError(f"option of {kind} {name!r}", option, parameters)
    for option, parameter in parameters.items():
        required = parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY
        if required and option not in options:
            raise InputError(
                f"{kind} {name!r} needs the option {option!r}; give {option}=VALUE (command line: --set "
                f"{option}=VALUE)."
            )
    return component(**options)


def file_and_class(name: Any) -> tuple[Path, str] | None:
    """Split the name of a class in a Python file; ``None`` for other names.

    Example:
        >>> file, class_name = file_and_class("losses/mine.py:MyLoss")
        >>> file.name, class_name, file_and_class("orcu")
        ('mine.py', 'MyLoss', None)
    """
    file, sign, class_name = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    return (Path(file), class_name) if sign and file.endswith(".py") else None


def read_source(kind: str, file: Path) -> str:
    """Read a Python file; `InputError` if that is not possible."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "file not found" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
        raise InputError(
            f"{kind}: {file}: {reason}; a path is relative to the spec, or to the current folder."
        ) from None


def class_from_source(kind: str, name: str, source: str) -> Any:
    """Return a class of a Python file, by a name such as ``"mine.py:MyLoss"`` and the text, which is executed.

    Raises:
        InputError: if the text cannot be executed, or has no such class.

    Example:
        >>> class_from_source("greeting", "mine.py:Hello", "class Hello: text = 'hi'").text
        'hi'
    """
    file, class_name = file_and_class(name) or (Path(), name)
    module = _execute(kind, file.name, source)
    loaded_class = vars(module).get(class_name)
    if not isinstance(loaded_class, type):
        names = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        raise UnknownNameError(f"class of {file.name}", class_name, names)
    return loaded_class


@cache
def _execute(kind: str, file: str, source: str) -> ModuleType:
    """Execute the text of a Python file as a module; the same text is executed once in a process."""
    # The name depends on the file name only, so that an edited file may register its components again.
    module = ModuleType(f"orcu_file_{Path(file).stem}")
    module.__file__ = file
    sys.modules[module.__name__] = module  # dataclasses and pickle look it up
    try:
        exec(compile(source, file, "exec"), vars(module))  # noqa: S102 -- a file that the user names
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        number = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = file if number is None else f"{file}: line {number}"
        raise InputError(f"{kind}: {where}: {type(error).__name__}: {error}") from error
    return module


def accepted_parameters(component: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a component; ``**options`` of a class are those of its base class.

    Example:
        >>> class Shape:
        ...     def __init__(self, sides, *, filled=False): ...
        >>> class Square(Shape):
        ...     def __init__(self, *, width=1.0, **common): ...
        >>> list(accepted_parameters(Square))
        ['width', 'sides', 'filled']
    """
    parameters = dict(inspect.signature(component).parameters)
    variadic = [name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_KEYWORD]
    if variadic and isinstance(component, type):
        constructors = [cls for cls in component.__mro__ if "__init__" in vars(cls)]
        parameters = {**parameters, **accepted_parameters(constructors[1]), **parameters}
        del parameters[variadic[0]]
    return parameters


def _warn(message: str) -> None:
    if message not in _issued_warnings:
        _issued_warnings.add(message)
        warnings.warn(message, PluginWarning, stacklevel=6)


def _origin(component: Any) -> tuple[str, str]:
    """Return the module and the qualified name of a class or function."""
    return str(getattr(component, "__module__", None)), getattr(component, "__qualname__", repr(component))
