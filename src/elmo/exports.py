"""Lazy exports of a package: each name is imported on first use.

In: a package and the names of its modules. Out: its `__all__`, `__getattr__` and `__dir__`. This
keeps `import elmo` and `elmo --help` from importing torch.
"""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_exports(
    package: str, names: Mapping[str, str]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__`, `__dir__`; `names` maps modules to space-separated names."""
    module_of = {name: module for module, listed in names.items() for name in listed.split()}

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    exported = sorted(module_of)
    return exported, get, lambda: exported
