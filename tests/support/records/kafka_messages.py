"""Kafka's own message definitions, and ours, in one form that can be compared field by field and version by version.

Apache Kafka describes each message in a JSON file (with `//` comments) that it ships inside the kafka-clients jar; the
kafka-python wheel carries copies of those that clients need. Both sides are unfolded here for one version of one
message into plain trees of `WireField`, in wire order, so that equal trees mean equal bytes and equal meaning.
"""

import functools
import importlib.resources
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from spark_kafka_native._protocol.schema import FieldSpec, Request, Response, Struct, VersionRange, fields_of
from tests.support.programs import maven

Direction = Literal["request", "response"]

NEWEST_KAFKA = "4.3.1"
LAST_ZOOKEEPER_KAFKA = "3.9.1"
"""The last release that still spoke the versions and APIs that 4.0 dropped (KIP-896, KIP-500)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireField:
    """One field as one version of a message has it.

    `type` is a primitive's or struct's name, with `[]` before it for an array; `default` is a Python value, and the
    string "its own defaults" for a struct; `ignorable` is None where no version that we speak lacks the field, as it
    says nothing then; `fields` are those of a struct.
    """

    name: str
    type: str
    nullable: bool
    tag: int | None
    default: object
    ignorable: bool | None
    fields: tuple["WireField", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaMessage:
    """One definition file. `unstable` is its last version where Kafka enables that one by a setting only, else None."""

    name: str
    api_key: int
    direction: Direction
    versions: VersionRange
    flexible: VersionRange
    unstable: int | None
    definition: Mapping[str, Any]

    def fields(self, version: int, spoken: VersionRange) -> tuple[WireField, ...]:
        """What `version` consists of, in wire order; `spoken` are the versions that we have."""
        structs = {struct["name"]: struct["fields"] for struct in self.definition.get("commonStructs", ())}
        return _their_fields(self.definition["fields"], structs, version, spoken)


Definitions = Mapping[tuple[int, Direction], KafkaMessage]


@functools.cache
def definitions_of_kafka(release: str) -> Definitions:
    """All requests and responses that Apache Kafka `release` has. Raises maven.MavenError."""
    coordinate = f"org.apache.kafka:kafka-clients:{release}"
    jars = maven.resolve(f"kafka-clients-{release}", (coordinate,), excluded=("*:*",))
    (jar,) = (path for path in jars if path.name == f"kafka-clients-{release}.jar")
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
        return _index(archive.read(name).decode() for name in names)


@functools.cache
def definitions_in_kafka_python() -> Definitions:
    """The requests and responses whose definitions kafka-python carries. Raises ModuleNotFoundError."""
    folder = importlib.resources.files("kafka.protocol.schemas.resources")
    return _index(file.read_text() for file in folder.iterdir() if file.name.endswith(".json"))


def _index(texts: Iterable[str]) -> Definitions:
    messages = [message for message in map(_parse, texts) if message is not None]
    return {(message.api_key, message.direction): message for message in messages}


def _parse(text: str) -> KafkaMessage | None:
    """A definition; None for what is no request or response, or no longer has any version."""
    definition = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    if definition["type"] not in {"request", "response"} or definition["validVersions"] == "none":
        return None
    versions = VersionRange.parse(definition["validVersions"])
    return KafkaMessage(
        name=definition["name"],
        api_key=definition["apiKey"],
        direction=definition["type"],
        versions=versions,
        flexible=VersionRange.parse(definition["flexibleVersions"]),
        unstable=versions.last if definition.get("latestVersionUnstable") else None,
        definition=definition,
    )


OTHER_NAMES = {"Enable2Pc": "enable2pc"}
"""Names that the rule of `snake_case` would tear apart (2PC is one word)."""


def snake_case(name: str) -> str:
    """Kafka's field name as ours: `TimeoutMs` is `timeout_ms`."""
    return OTHER_NAMES.get(name) or re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _their_fields(
    definitions: Iterable[Mapping[str, Any]], structs: Mapping[str, Any], version: int, spoken: VersionRange
) -> tuple[WireField, ...]:
    fields = []
    for definition in definitions:
        versions = VersionRange.parse(definition["versions"])
        if version not in versions:
            continue
        element = definition["type"].removeprefix("[]")
        nested = definition.get("fields") or structs.get(element, ())
        fields.append(
            WireField(
                name=snake_case(definition["name"]),
                type=definition["type"],
                nullable=version in VersionRange.parse(definition.get("nullableVersions", "none")),
                tag=definition["tag"] if version in _tagged_versions(definition) else None,
                default=_their_default(definition),
                ignorable=None if _covers(versions, spoken) else definition.get("ignorable", False),
                fields=_their_fields(nested, structs, version, spoken),
            )
        )
    return _in_wire_order(fields)


def _tagged_versions(definition: Mapping[str, Any]) -> VersionRange:
    return VersionRange.parse(definition.get("taggedVersions", "none"))


def _their_default(definition: Mapping[str, Any]) -> object:
    kind, text = definition["type"], definition.get("default")
    if text == "null":
        return None
    if kind.startswith("[]"):
        return ()
    if kind[0].isupper():
        return "its own defaults"
    if kind == "bool":
        return str(text).lower() == "true"
    if kind.startswith(("int", "uint")):
        return int(str(text or 0), 0)
    simple: dict[str, object] = {"string": text or "", "float64": float(text or 0), "uuid": UUID(int=0)}
    # Records have no written default; an absent batch is null.
    return simple.get(kind, b"" if kind == "bytes" else None)


def our_fields(message: "type[Request[Any] | Response]", version: int) -> tuple[WireField, ...]:
    """What `version` of one of our messages consists of, in wire order."""
    return _our_fields(message, version, message.versions, version in message.flexible)


def _our_fields(cls: type[Struct], version: int, spoken: VersionRange, flexible: bool) -> tuple[WireField, ...]:
    return _in_wire_order(
        _our_field(spec, version, spoken, flexible)
        for spec in fields_of(cls)
        if version in spec.versions and (flexible or spec.tag is None)
    )


def _our_field(spec: FieldSpec, version: int, spoken: VersionRange, flexible: bool) -> WireField:
    # Where Kafka gives different structs of a request and its response one name, ours says which is the request's.
    element = spec.struct.__name__.removeprefix("Requested") if spec.struct is not None else spec.primitive
    is_plain_struct = isinstance(spec.default, Struct) and spec.default == type(spec.default)()
    return WireField(
        name=spec.name,
        type=f"[]{element}" if spec.is_array else str(element),
        nullable=version in spec.nullable,
        tag=spec.tag,
        default="its own defaults" if is_plain_struct else spec.default,
        ignorable=None if _covers(spec.versions, spoken) else spec.ignorable,
        fields=_our_fields(spec.struct, version, spoken, flexible) if spec.struct is not None else (),
    )


def _covers(versions: VersionRange, spoken: VersionRange) -> bool:
    return spoken.first in versions and spoken.last in versions


def _in_wire_order(fields: Iterable[WireField]) -> tuple[WireField, ...]:
    """Fields without a tag as they are declared, then tagged ones by tag."""
    return tuple(sorted(fields, key=lambda field: -1 if field.tag is None else field.tag))


def differences(ours: tuple[WireField, ...], theirs: tuple[WireField, ...], where: str = "") -> Iterator[str]:
    """Lines that say in what two unfolded messages differ; none when they are the same."""
    our_names, their_names = [field.name for field in ours], [field.name for field in theirs]
    for name in their_names:
        if name not in our_names:
            yield f"{where}{name}: missing"
    for name in our_names:
        if name not in their_names:
            yield f"{where}{name}: Kafka has no such field"
    if set(our_names) == set(their_names) and our_names != their_names:
        yield f"{where or 'message'}: order is {our_names}, Kafka's is {their_names}"
    by_name = {field.name: field for field in theirs}
    for field in ours:
        other = by_name.get(field.name)
        if other is None:
            continue
        for aspect in ("type", "nullable", "tag", "default", "ignorable"):
            here, there = getattr(field, aspect), getattr(other, aspect)
            if here != there or type(here) is not type(there):
                yield f"{where}{field.name}: {aspect} is {here!r}, Kafka's is {there!r}"
        yield from differences(field.fields, other.fields, f"{where}{field.name}.")
