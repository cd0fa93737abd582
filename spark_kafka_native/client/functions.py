"""Functions of the user's, by name: ``module:function``."""

import importlib
from collections.abc import Callable
from typing import Any


def find_function(name: str) -> Callable[..., Any]:
    """The function that ``module:function`` names; it may stand in a class or another object of the module.

    Raises LookupError: it is not there, and why. TypeError: it is no function.
    """
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise LookupError(str(error)) from error
    if not callable(found):
        raise TypeError(f"{name} is no function")
    return found  # type: ignore[no-any-return]  # callable, and no more is known of a user's function
