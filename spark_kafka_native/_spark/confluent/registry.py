"""A schema registry, through Confluent's client (the extra ``avro``).

Spark's workers get the registry's URL and credentials. Each worker process has one client and caches every schema,
because the schema of an id never changes.
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

from spark_kafka_native._records.confluent_header import SchemaRef
from spark_kafka_native._spark.confluent.errors import NoSuchSchema, RegistryError

_AVRO: Final = "AVRO"
_ABOUT_THE_SCHEMA: Final = frozenset({40401, 40402, 40403, 409, 42201})
"""Error codes: subject, version or schema not found; incompatible; not valid. Others are the registry's."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema's JSON, and the JSON of all schemas that it refers to, in the order of their references."""

    text: str
    references: tuple[str, ...] = ()
    schema_id: int | None = None
    """Set for the latest version of a subject."""


@dataclass(frozen=True, slots=True, repr=False)
class Registry:
    """A registry's URL and settings. Frozen and picklable; ``repr`` shows only the hosts of its URL."""

    settings: tuple[tuple[str, Any], ...]
    """Of Confluent's client, by name."""

    @classmethod
    def at(cls, registry: "str | Mapping[str, Any] | Registry") -> "Registry":
        """``http://host:8081``, or settings of Confluent's client: ``url``, ``basic.auth.user.info`` and others.

        Raises ValueError: there is no URL.
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
        return _fetched_once(self, ref)

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject. Raises NoSuchSchema; RegistryError."""
        found = self._ask(f"subject {subject}", lambda client: client.get_latest_version(subject))
        return replace(self._with_references(f"subject {subject}", found.schema), schema_id=found.schema_id)

    def register(self, subject: str, text: str) -> int:
        """Register a schema under a subject, unless it is there, and return its id.

        Raises NoSuchSchema: the registry refuses it, for example as incompatible; RegistryError.
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
        """Add the schemas that ``schema`` refers to to ``texts``, depth first."""
        for reference in schema.references or ():
            version = (reference.subject, reference.version)
            if version not in texts:
                found = self._version(*version)
                self._collect(found.schema, texts)
                texts[version] = found.schema.schema_str

    def _version(self, subject: str, version: int) -> Any:
        what = f"version {version} of subject {subject}"
        return self._ask(what, lambda client: client.get_version(subject, version))

    def _ask(self, what: str, request: Any) -> Any:
        client = _client(self)
        try:
            return request(client)
        except SchemaRegistryError as error:
            if error.error_code in _ABOUT_THE_SCHEMA:
                raise NoSuchSchema(f"{what}: the registry responded: {error.error_message}") from None
            reason = f"HTTP {error.http_status_code}: {error.error_message}"
        except Exception as error:  # errors of its HTTP library
            reason = f"{_system_error(error)} ({type(error).__name__})"
        # Errors of the HTTP library may contain the URL with a password.
        raise RegistryError(f"the schema registry at {self.where} did not return {what}: {reason}")


def _system_error(error: BaseException | None) -> str:
    """The system's reason for an error of the HTTP library: a text without a URL."""
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return error.strerror[:1].lower() + error.strerror[1:]
        error = error.__cause__ or error.__context__
    return "the request failed"


_clients: dict[Registry, SchemaRegistryClient] = {}
_lock = threading.Lock()


def _client(registry: Registry) -> SchemaRegistryClient:
    with _lock:
        client = _clients.get(registry)
        if client is None:
            client = _clients[registry] = SchemaRegistryClient(dict(registry.settings))
        return client


@atexit.register
def _close_clients() -> None:
    for client in _clients.values():
        client.close()


@functools.lru_cache(maxsize=4096)
def _fetched_once(registry: Registry, ref: SchemaRef) -> RegisteredSchema:
    return registry._fetch(ref)  # noqa: SLF001 -- its own cache
