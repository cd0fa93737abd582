"""A login module as Java reads it from its configuration: its class, a control flag and options.

org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="...";

A JAAS file has sections of login modules: ``KafkaServer { MODULE required ...; MODULE required ...; };``
"""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from spark_kafka_native._net.secret import Secret

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)'
    | (?P<word>[\w.$+-]+) | (?P<sign>[=;{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class JaasError(ValueError):
    """Text that names no login module; ``str()`` has the reason, and repeats nothing of it."""


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


class ModuleText(NamedTuple):
    """A login module of a JAAS file: the last part of its class name, and its text for ``parse_login_module``."""

    name: str
    text: Secret


class _Token(NamedTuple):
    kind: str
    value: str
    start: int
    end: int


def parse_login_module(text: Secret) -> LoginModule:
    """The one login module that ``text`` names. Raises JaasError."""
    tokens = [(token.kind, token.value) for token in _tokens(text.reveal())]
    kinds = [kind for kind, _ in tokens]
    values = [value for _, value in tokens]
    if len(tokens) < 3 or kinds[:2] != ["word", "word"] or tokens[-1] != ("sign", ";"):
        raise JaasError('is not of the form: LoginModule required name="value" ...;')
    if values[1].lower() not in _FLAGS:
        raise JaasError(f"the control flag after the login module must be one of {', '.join(sorted(_FLAGS))}")
    if ("sign", ";") in tokens[:-1]:
        raise JaasError("names more than one login module, or has a ; too many")
    options: dict[str, Secret] = {}
    for at in range(2, len(tokens) - 1, 3):
        if kinds[at] == "sign" or tokens[at + 1 : at + 2] != [("sign", "=")] or kinds[at + 2] == "sign":
            raise JaasError(f'option {len(options) + 1} is not of the form name="value"')
        if values[at] in options:
            raise JaasError(f"the option {values[at]} is there twice")
        options[values[at]] = Secret(values[at + 2])
    return LoginModule(_last_part(values[0]), options)


def parse_jaas_file(text: Secret) -> dict[str, tuple[ModuleText, ...]]:
    """The login modules of each section of a JAAS file. Their flags and options are not checked. Raises JaasError."""
    source = text.reveal()
    tokens = _tokens(source)
    sections: dict[str, tuple[ModuleText, ...]] = {}
    for name in tokens:
        if name.kind == "sign":
            raise JaasError(f"has no section name before {name.value}")
        if name.value in sections:
            raise JaasError(f"has the section {name.value} twice")
        _expect(tokens, "{", f"the section {name.value} does not begin with {{")
        sections[name.value] = tuple(_section(name.value, source, tokens))
        _expect(tokens, ";", f"the section {name.value} does not end with }};")
    return sections


def _section(name: str, source: str, tokens: Iterator[_Token]) -> Iterator[ModuleText]:
    """The login modules up to the section's closing brace, which is consumed."""
    first: _Token | None = None
    for token in tokens:
        sign = token.value if token.kind == "sign" else ""
        if first is None and sign == "}":
            return
        if sign in {"{", "}"} or (first is None and sign):
            raise JaasError(f"the section {name} has {sign} where a login module or ; is expected")
        first = first or token
        if sign == ";":
            yield ModuleText(_last_part(first.value), Secret(source[first.start : token.end]))
            first = None
    raise JaasError(f"the section {name} does not end with }};")


def _expect(tokens: Iterator[_Token], sign: str, problem: str) -> None:
    if not any(token.kind == "sign" and token.value == sign for token in itertools.islice(tokens, 1)):
        raise JaasError(problem)


def _last_part(class_name: str) -> str:
    return class_name.rpartition(".")[2]


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JaasError(f"is invalid at character {position + 1}; put values in quotes")
        position = found.end()
        if found["word"] is not None:
            yield _Token("word", found["word"], *found.span())
        elif found["sign"] is not None:
            yield _Token("sign", found["sign"], *found.span())
        elif (quoted := found["double"] if found["double"] is not None else found["single"]) is not None:
            value = re.sub(r"\\([0-7]{1,3}|.)", _unescaped, quoted, flags=re.DOTALL)
            yield _Token("text", value, *found.span())


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPES.get(escape, escape)
