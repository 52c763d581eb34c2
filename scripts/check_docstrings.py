"""House rule: what users can name explains itself, by example.

Every name in the `__all__` of piwo and of its packages has a docstring. A class or function has a
`>>>` example in it (`make examples` runs them), and a function says what it returns. Exceptions,
protocols and abstract classes need no example: nobody makes one by hand. The installed package is
imported, so that lazily loaded names are seen as users see them.
"""

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from house import Finding, main

RULE = "public names have a docstring with a >>> example; functions say what they return"
NOT_FOR_IMPORT = frozenset({"piwo.cli"})
RETURNS = re.compile(r"\b(returns?|yields?)\b", re.IGNORECASE)


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """The package, what lies directly in it, and its deeper packages: the modules that users import from."""
    yield package
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        private = any(part.startswith("_") for part in info.name.split("."))
        if not private and (info.ispkg or info.name.count(".") == 1):
            yield importlib.import_module(info.name)


def is_described_elsewhere(thing: object) -> bool:
    """Exceptions, protocols and abstract classes are explained, not shown."""
    if not isinstance(thing, type):
        return False
    interface = inspect.isabstract(thing) or bool(getattr(thing, "_is_protocol", False))
    return interface or issubclass(thing, BaseException)


def own_docstring(thing: object) -> str:
    """The docstring that was written for it: not inherited, and not the one that dataclasses make up."""
    text = (
        vars(thing).get("__doc__") if isinstance(thing, type) else getattr(thing, "__doc__", None)
    ) or ""
    made_up = isinstance(thing, type) and text.startswith(f"{thing.__name__}(")
    return "" if made_up else text


def faults(thing: object) -> Iterator[str]:
    """What is missing from the docstring of a class or function."""
    text = own_docstring(thing)
    if not text.strip():
        yield "has no docstring"
        return
    if ">>>" not in text and not is_described_elsewhere(thing):
        yield "has no >>> example"
    if inspect.isroutine(thing):
        annotation = getattr(thing, "__annotations__", {}).get("return", "")
        if annotation not in (None, "None") and not RETURNS.search(text):
            yield "does not say what it returns"


def home(path: str | None) -> Path:
    """The file in `src` from which an installed file was built."""
    parts = Path(path or "").parts
    return (
        Path("src", *parts[len(parts) - 1 - parts[::-1].index("piwo") :])
        if "piwo" in parts
        else Path(*parts)
    )


def place(thing: object, module: ModuleType) -> tuple[Path, int]:
    """Where a thing was written, as well as Python can tell."""
    try:
        unwrapped = inspect.unwrap(thing) if callable(thing) else thing
        return home(inspect.getsourcefile(unwrapped)), inspect.getsourcelines(unwrapped)[1]
    except (TypeError, OSError):
        return home(module.__file__), 1


def check_package(package: ModuleType) -> Iterator[Finding]:
    """Every public class, function and module that does not explain itself."""
    seen: set[int] = set()
    for module in modules(package):
        if not (module.__doc__ or "").strip():
            yield Finding(home(module.__file__), 1, f"module {module.__name__} has no docstring")
        if not hasattr(module, "__all__") and module.__name__ not in NOT_FOR_IMPORT:
            yield Finding(home(module.__file__), 1, f"{module.__name__} does not declare __all__")
        for name in getattr(module, "__all__", ()):
            if not hasattr(module, name):
                yield Finding(
                    home(module.__file__), 1, f"{name!r} is in __all__ but not in the module"
                )
                continue
            thing = getattr(module, name)
            described = isinstance(thing, type) or inspect.isroutine(thing)
            if described and id(thing) not in seen:
                seen.add(id(thing))
                for fault in faults(thing):
                    yield Finding(*place(thing, module), f"{module.__name__}.{name} {fault}")


def check(root: Path) -> Iterator[Finding]:
    """Check the installed piwo; a root of its own (in the tests) is imported from its `src`."""
    if root != Path(__file__).resolve().parent.parent:
        sys.path.insert(0, str(root / "src"))
    yield from check_package(importlib.import_module("piwo"))


if __name__ == "__main__":
    main(RULE, check)
