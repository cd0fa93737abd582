"""Validation of fields from JSON or keyword arguments. Unknown fields are refused."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, overload

_NO_DEFAULT: Final = "\0"
_NO_NUMBER: Final = -(2**64)
"""The marker of a missing default."""


class FieldError(ValueError):
    """A field is invalid, missing or unknown. ``field`` is its name, ``problem`` the error."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Fields:
    """The fields of a command. A value None is a missing field.

    Every method raises FieldError: the field is missing and has no default, or its value is invalid.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        self._left = set(self._values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def take(self, name: str) -> Any:
        """A value without validation, or None."""
        self._left.discard(name)
        return self._values.get(name)

    @overload
    def text(self, name: str) -> str: ...
    @overload
    def text(self, name: str, default: None) -> str | None: ...
    @overload
    def text(self, name: str, default: str) -> str: ...
    def text(self, name: str, default: str | None = _NO_DEFAULT) -> str | None:
        """A text, not empty."""
        value = self.take(name)
        if value is None and default is not _NO_DEFAULT:
            return default
        if not isinstance(value, str) or not value:
            raise FieldError(
                name, "the field is missing" if value is None else f"must be a non-empty string, not {value!r}"
            )
        return value

    def one_of(self, name: str, allowed: Sequence[str], default: str = _NO_DEFAULT) -> str:
        """One of a few words."""
        value = self.text(name, default)
        if value not in allowed:
            raise FieldError(name, f"{value!r} is not one of {', '.join(allowed)}")
        return value

    @overload
    def integer(self, name: str, *, least: int = ..., most: int = ...) -> int: ...
    @overload
    def integer(self, name: str, default: None, *, least: int = ..., most: int = ...) -> int | None: ...
    @overload
    def integer(self, name: str, default: int, *, least: int = ..., most: int = ...) -> int: ...
    def integer(
        self, name: str, default: int | None = _NO_NUMBER, *, least: int = -(2**63), most: int = 2**63 - 1
    ) -> int | None:
        """A whole number within bounds."""
        value = self.take(name)
        if value is None and default is not _NO_NUMBER:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            raise FieldError(name, "the field is missing" if value is None else f"{value!r} is not a whole number")
        if not least <= value <= most:
            raise FieldError(name, f"{value} is not between {least} and {most}")
        return value

    def probability(self, name: str) -> float:
        """A number over 0 and up to 1, which is the default."""
        value = self.take(name)
        if value is None:
            return 1.0
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
            raise FieldError(name, f"must be a number greater than 0 and at most 1, not {value!r}")
        return float(value)

    def texts_by_name(self, name: str) -> dict[str, str]:
        """Texts by name; none if there are none."""
        value = self.take(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(each, str) for pair in value.items() for each in pair):
            raise FieldError(name, f"{value!r} must map strings to strings")
        return dict(value)

    def refuse_rest(self, what: str) -> None:
        """Raise FieldError for a field that was not read: ``what`` does not have it."""
        for name in sorted(self._left):
            raise FieldError(name, f"{what} has no such field")
