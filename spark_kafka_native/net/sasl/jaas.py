"""A login module as Java reads it from its configuration: its class, a control flag and options.

org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="...";
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Final

from spark_kafka_native.net.secret import Secret

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)'
    | (?P<word>[\w.$+-]+) | (?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class JaasError(ValueError):
    """Text that names no login module; ``str()`` says what is wrong, and repeats nothing of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module by the last part of its class name, so that shaded copies count as the same, and its options."""

    name: str
    options: Mapping[str, Secret] = dataclasses.field(repr=False)

    def text(self, name: str) -> str | None:
        """An option that is no secret; None if it is not there."""
        value = self.options.get(name)
        return None if value is None else value.reveal()

    def is_true(self, name: str) -> bool:
        """Whether an option is ``true``."""
        return (self.text(name) or "").strip().lower() == "true"


def parse_login_module(text: Secret) -> LoginModule:
    """The one login module that ``text`` names. Raises JaasError."""
    tokens = list(_tokens(text.reveal()))
    kinds = [kind for kind, _ in tokens]
    values = [value for _, value in tokens]
    if len(tokens) < 3 or kinds[:2] != ["word", "word"] or tokens[-1] != ("sign", ";"):
        raise JaasError('is not of the form: LoginModule required name="value" ...;')
    if values[1].lower() not in _FLAGS:
        raise JaasError(f"the word behind the login module must be one of {', '.join(sorted(_FLAGS))}")
    if ("sign", ";") in tokens[:-1]:
        raise JaasError("names more than one login module, or has a ; too many")
    options: dict[str, Secret] = {}
    for at in range(2, len(tokens) - 1, 3):
        if kinds[at] == "sign" or tokens[at + 1 : at + 2] != [("sign", "=")] or kinds[at + 2] == "sign":
            raise JaasError(f'option {len(options) + 1} is not of the form name="value"')
        if values[at] in options:
            raise JaasError(f"the option {values[at]} is there twice")
        options[values[at]] = Secret(values[at + 2])
    return LoginModule(values[0].rpartition(".")[2], options)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JaasError(f"cannot be read from character {position + 1} on; values belong in quotes")
        position = found.end()
        if found["word"] is not None:
            yield "word", found["word"]
        elif found["sign"] is not None:
            yield "sign", found["sign"]
        elif (quoted := found["double"] if found["double"] is not None else found["single"]) is not None:
            yield "text", re.sub(r"\\([0-7]{1,3}|.)", _unescaped, quoted, flags=re.DOTALL)


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPES.get(escape, escape)
