"""The known name that a mistyped one is nearest to: for errors about settings, options, APIs and error codes."""

import difflib
from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that is most like ``name``, whatever its case; None: none is like it."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error about a name that is not known; empty if no known name is like it."""
    near = nearest_name(name, known)
    return "" if near is None else f"; did you mean {near}?"
