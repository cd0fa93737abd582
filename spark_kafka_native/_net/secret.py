"""Values that must not be shown by accident."""

import hashlib
from typing import Any, Final

HIDDEN: Final = "(hidden)"


class Secret:
    """A password, key or token. ``repr`` and ``str`` hide it, so that no log line, plan or traceback has it.

    Compared and hashed by what it holds; picklable, for tasks need it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself. Call this only where it is used up."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        # Never the hash of the text itself: a hash may be printed, and those of short texts can be guessed.
        return hash(hashlib.blake2b(self._value.encode("utf-8", "surrogatepass"), key=b"Secret").digest())

    def __repr__(self) -> str:
        return f"Secret{HIDDEN}"

    def __str__(self) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._value,)


def without_secrets(text: str, *secrets: Secret | None) -> str:
    """``text`` with every one of ``secrets`` replaced; for what brokers, token servers and libraries answer."""
    # The longest first, so that a secret that holds another one is taken out whole.
    for value in sorted({secret.reveal() for secret in secrets if secret}, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text
