"""Messages are frozen dataclasses, whose fields declare the versions that have them.

    @message(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest(Request[HeartbeatResponse]):
        group_id: String = ""
        group_instance_id: String | None = field("3+", default=None)

A plain default means that the field is in every version. ``X | None`` makes it nullable in all versions that have it,
unless ``nullable`` says which. ``tag`` makes it a tagged field (KIP-482). Lists are ``tuple[X, ...]``; nested structs
are classes decorated with ``@struct``, whose versions are those of the message that holds them.
"""

import dataclasses
import types
from collections.abc import Callable
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)


@dataclasses.dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions from ``first`` to ``last``, both included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """``"3"``, ``"0-4"``, ``"3+"`` or ``"none"``."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _OPEN_END)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def within(self, other: "VersionRange") -> "VersionRange":
        """The versions that are in both; none if they do not meet."""
        return VersionRange(max(self.first, other.first), min(self.last, other.last))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == _OPEN_END:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


_OPEN_END: Final = 0x7FFF
_ALL: Final = VersionRange(0, _OPEN_END)


def field(
    versions: str = "0+", *, default: Any, nullable: str | None = None, tag: int | None = None, ignorable: bool = False
) -> Any:
    """Declare a field that not every version has, or that is nullable only in some, or tagged.

    ``ignorable``: a version without the field drops a value that is not the default instead of refusing it.
    """
    meta = {"versions": versions, "nullable": nullable, "tag": tag, "ignorable": ignorable}
    return dataclasses.field(default=default, metadata=meta)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One field of a message as the codecs, and tests against other definitions, see it."""

    name: str
    primitive: str | None
    struct: "type[Struct] | None"
    is_array: bool
    versions: VersionRange
    nullable: VersionRange
    default: object
    tag: int | None
    ignorable: bool


class Struct:
    """A part of a message. Subclasses are frozen, slotted, keyword-only dataclasses.

    What dataclasses would generate for each of some hundred classes is written once here, and ``__init__`` is
    generated when a class is first used: a process uses few of them, and importing them all shall take no time.
    """

    __slots__: tuple[str, ...] = ()

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _generated_init(cls)  # type: ignore[method-assign]  # this one was to make that one
        cls.__init__(self, **values)

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._values())

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__qualname__}({shown})"


def setters_of(cls: type[Struct]) -> dict[str, Callable[[Struct, Any], None]]:
    """What puts a value into a field of a message that is being made, by the field's name."""
    return {name: cls.__dict__[name].__set__ for name in cls.__slots__}


def _generated_init(cls: type[Struct]) -> Callable[..., None]:
    """``__init__`` of a message class: each value goes straight into its slot."""
    fields = dataclasses.fields(cast("Any", cls))
    names = [item.name for item in fields]
    scope: dict[str, Any] = {f"default_{item.name}": item.default for item in fields}
    scope |= {f"set_{name}": setter for name, setter in setters_of(cls).items()}
    parameters = "".join(f", {name}=default_{name}" for name in names)
    body = "\n".join(f"    set_{name}(self, {name})" for name in names) or "    pass"
    source = f"def __init__(self{', *' if names else ''}{parameters}):\n{body}\n"
    exec(source, scope)  # noqa: S102  # the names are those of the class's own fields
    made: Callable[..., None] = scope["__init__"]
    return made


def _restored(cls: type[Struct], values: tuple[Any, ...]) -> Struct:
    return cls(**dict(zip(cls.__slots__, values, strict=True)))


ResponseT = TypeVar("ResponseT", bound="Response")


class Message(Struct):
    """What requests and responses share: the API, and the versions that exist of it."""

    __slots__ = ()
    api_key: ClassVar[int]
    api_name: ClassVar[str]
    versions: ClassVar[VersionRange]
    flexible: ClassVar[VersionRange]
    min_version: ClassVar[int]
    max_version: ClassVar[int]


class Response(Message):
    """A response of a broker."""

    __slots__ = ()
    request: ClassVar["type[Request[Any]]"]


class Request(Message, Generic[ResponseT]):
    """A request to a broker; ``response`` is the class of its response."""

    __slots__ = ()
    response: ClassVar[type[Response]]


REQUESTS: Final[dict[int, type[Request[Any]]]] = {}
"""Every request class by API key, filled as the message modules are imported."""

T = TypeVar("T")

_dataclass: Final = dataclasses.dataclass(init=False, slots=True, kw_only=True, eq=False, repr=False)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Make a class with annotated fields a part of messages."""
    return _dataclass(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def message(*, api_key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Make a class with annotated fields a message of an API. A request names its response: ``Request[XResponse]``."""

    def decorate(cls: type[T]) -> type[T]:
        made = cast("type[Message]", _dataclass(cls))
        made.api_key = api_key
        made.versions = VersionRange.parse(versions)
        made.flexible = VersionRange.parse(flexible)
        made.min_version, made.max_version = made.versions.first, made.versions.last
        made.api_name = made.__name__.removesuffix("Request").removesuffix("Response")
        if issubclass(made, Request):
            (base,) = made.__orig_bases__  # type: ignore[attr-defined]  # set by Generic
            (made.response,) = get_args(base)
            made.response.request = made
            REQUESTS[api_key] = made
        return cast("type[T]", made)

    return decorate


def fields_of(cls: type[Struct]) -> tuple[FieldSpec, ...]:
    """The fields of a message or struct in wire order."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_field_spec(item, hints[item.name]) for item in dataclasses.fields(cast("Any", cls)))


def _field_spec(item: "dataclasses.Field[Any]", hint: Any) -> FieldSpec:
    hint, optional = _without_none(hint)
    is_array = get_origin(hint) is tuple
    element = get_args(hint)[0] if is_array else hint
    nested = element if isinstance(element, type) and issubclass(element, Struct) else None
    versions = VersionRange.parse(item.metadata.get("versions", "0+"))
    nullable = item.metadata.get("nullable")
    return FieldSpec(
        name=item.name,
        primitive=None if nested else element.__metadata__[0],
        struct=nested,
        is_array=is_array,
        versions=versions,
        nullable=VersionRange.parse(nullable) if nullable else versions if optional else VersionRange.parse("none"),
        default=item.default,
        tag=item.metadata.get("tag"),
        ignorable=item.metadata.get("ignorable", False),
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    """``X | None`` -> (X, True). ``Records`` is itself a union, under ``Annotated``, and passes."""
    if get_origin(hint) not in {Union, types.UnionType}:
        return hint, False
    rest = [part for part in get_args(hint) if part is not type(None)]
    return rest[0], True
