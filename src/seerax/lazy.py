"""Packages whose names are found when they are first asked for.

JAX and matplotlib take a second to import.

Internal.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def attach(package: str, names: dict[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """Returns the `__getattr__` and `__all__` of a package; `names` maps each public name to its
    module.

    A name mapped to its own module is that module.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module = import_module(f"{package}.{names[name]}")
        return module if names[name] == name else getattr(module, name)

    return find, sorted(names)
