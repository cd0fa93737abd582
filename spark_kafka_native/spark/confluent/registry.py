"""A schema registry, by Confluent's own client (the extra ``avro``).

What travels to Spark's workers is where the registry is and how to get in; each worker process has one client, which
keeps every schema that it has been given: schemas never change under their ids.
"""

import atexit
import functools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from spark_kafka_native.spark.confluent.wire import SchemaRef

_AVRO: Final = "AVRO"
_ABOUT_THE_SCHEMA: Final = frozenset({40401, 40402, 40403, 409, 42201})
"""Error codes: subject, version or schema not found; incompatible; not valid. Others are about the registry."""


class RegistryError(RuntimeError):
    """The registry cannot be asked, or refuses to answer: nothing is known about any schema."""


class NoSuchSchema(ValueError):
    """The registry does not have this schema, or it is no Avro schema."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema's JSON and that of all schemas it refers to, those referred to first."""

    text: str
    references: tuple[str, ...] = ()
    schema_id: int | None = None
    """Known for the latest version of a subject."""


@dataclass(frozen=True, slots=True, repr=False)
class Registry:
    """Where a registry is. Frozen and picklable; shows neither its settings nor what is in its URL but the host."""

    settings: tuple[tuple[str, Any], ...]
    """Of Confluent's client, by its names."""

    @classmethod
    def at(cls, registry: "str | Mapping[str, Any] | Registry") -> "Registry":
        """``http://host:8081``, or settings of Confluent's client: ``url``, ``basic.auth.user.info`` and others.

        Raises ValueError: there is no URL among them.
        """
        if isinstance(registry, Registry):
            return registry
        settings = {"url": registry} if isinstance(registry, str) else dict(registry)
        if not settings.get("url"):
            raise ValueError("a schema registry needs its 'url'")
        return cls(tuple(sorted(settings.items())))

    def __hash__(self) -> int:
        return hash(self.where)  # settings may be dictionaries

    def __repr__(self) -> str:
        return f"Registry({self.where})"

    @property
    def where(self) -> str:
        """The registry's address without user and password."""
        urls = str(dict(self.settings)["url"]).split(",")
        return ",".join(urlsplit(url.strip()).netloc.rpartition("@")[2] or "?" for url in urls)

    def schema(self, ref: SchemaRef) -> RegisteredSchema:
        """The schema of an id or GUID. Raises NoSuchSchema; RegistryError."""
        return _asked_once(self, ref)

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject, as of now. Raises NoSuchSchema; RegistryError."""
        found = self._ask(f"subject {subject}", lambda client: client.get_latest_version(subject))
        return replace(self._with_references(f"subject {subject}", found.schema), schema_id=found.schema_id)

    def register(self, subject: str, text: str) -> int:
        """Register a schema under a subject, unless it is there, and return its id.

        Raises NoSuchSchema: the registry refuses it, as for being incompatible; RegistryError.
        """
        registered: int = self._ask(
            f"subject {subject}", lambda client: client.register_schema(subject, Schema(text, _AVRO))
        )
        return registered

    def _fetch(self, ref: SchemaRef) -> RegisteredSchema:
        what = f"schema {ref}"
        if isinstance(ref, UUID):
            return self._with_references(what, self._ask(what, lambda client: client.get_schema_by_guid(str(ref))))
        return self._with_references(what, self._ask(what, lambda client: client.get_schema(ref)))

    def _with_references(self, what: str, schema: Any) -> RegisteredSchema:
        if (schema.schema_type or _AVRO) != _AVRO:
            raise NoSuchSchema(f"{what} is {schema.schema_type}, not Avro")
        texts: dict[tuple[str, int], str] = {}
        self._collect(schema, texts)
        return RegisteredSchema(schema.schema_str, tuple(texts.values()))

    def _collect(self, schema: Any, texts: dict[tuple[str, int], str]) -> None:
        """Put what ``schema`` refers to into ``texts``, depth first."""
        for reference in schema.references or ():
            place = (reference.subject, reference.version)
            if place not in texts:
                found = self._version(*place)
                self._collect(found.schema, texts)
                texts[place] = found.schema.schema_str

    def _version(self, subject: str, version: int) -> Any:
        what = f"version {version} of subject {subject}"
        return self._ask(what, lambda client: client.get_version(subject, version))

    def _ask(self, what: str, question: Any) -> Any:
        client = _client(self)
        try:
            return question(client)
        except SchemaRegistryError as error:
            if error.error_code in _ABOUT_THE_SCHEMA:
                raise NoSuchSchema(f"{what}: the registry says: {error.error_message}") from None
            reason = f"HTTP {error.http_status_code}: {error.error_message}"
        except Exception as error:  # whatever its HTTP library raises
            reason = type(error).__name__
        # Texts of the HTTP library may hold the URL, and so a password.
        raise RegistryError(f"the schema registry at {self.where} did not tell {what}: {reason}")


_clients: dict[Registry, SchemaRegistryClient] = {}
_turn = threading.Lock()


def _client(registry: Registry) -> SchemaRegistryClient:
    """This process's client of a registry."""
    with _turn:
        client = _clients.get(registry)
        if client is None:
            client = _clients[registry] = SchemaRegistryClient(dict(registry.settings))
        return client


@atexit.register
def _close_clients() -> None:
    for client in _clients.values():
        client.close()


@functools.lru_cache(maxsize=4096)
def _asked_once(registry: Registry, ref: SchemaRef) -> RegisteredSchema:
    return registry._fetch(ref)  # noqa: SLF001 -- its own cache
