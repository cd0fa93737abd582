"""The metadata of this broker: one immutable value, stored in a file per kind.

The steps of a change of topics, configs, quotas, credentials or producer ids:

1. It is planned: the current value gives the next one, or an error. Crash here: nothing has changed.
2. The file of its kind is replaced atomically (written under another name, synced, renamed). Crash here: the change is
   durable, and the next start completes it.
3. Watchers prepare the change before clients see it, such as the logs of a new topic. If that fails, the file is
   replaced by the old one, and the request gets the error.
4. The next value becomes the current one.
5. Watchers apply it, and the response is sent.

Apache Kafka appends records to a metadata log instead, so that many brokers can follow the changes. For one broker a
readable file is sufficient. Replacing it takes about a millisecond for some hundreds of topics.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from broker_embedded._metadata.files.credentials import CREDENTIALS
from broker_embedded._metadata.files.metadata_file import MetadataFile
from broker_embedded._metadata.files.producer_ids import PRODUCER_IDS
from broker_embedded._metadata.files.quotas import QUOTAS
from broker_embedded._metadata.files.stored_configs import CONFIGS, StoredConfigs
from broker_embedded._metadata.files.topics import TOPICS
from broker_embedded._metadata.image import ClusterImage
from broker_embedded._platform.platform import FileSystem
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from broker_embedded._platform.worker_threads import OnDisk
from broker_embedded._quotas.entities import ClientQuotaEntity, Values
from broker_embedded._security.credentials import Credentials
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """All metadata of a broker. ``next_producer_id`` is the first id that has not been claimed."""

    image: ClusterImage
    configs: StoredConfigs
    quotas: Mapping[ClientQuotaEntity, Values]
    credentials: Credentials
    next_producer_id: int


ValueT = TypeVar("ValueT")
Plan: TypeAlias = Callable[[ValueT], ValueT]
"""The value after a change, from the one before. May raise KafkaError."""
Watcher: TypeAlias = Callable[[ValueT, ValueT], Awaitable[None]]
"""Called with the values before and after a change. Other changes of the same kind wait until it returns."""

_FIELDS: Final[Mapping[MetadataFile[Any], str]] = {
    TOPICS: "image",
    CONFIGS: "configs",
    QUOTAS: "quotas",
    CREDENTIALS: "credentials",
    PRODUCER_IDS: "next_producer_id",
}


class MetadataStore:
    """The current metadata. Belongs to the event loop.

    Changes of one kind are made one after the other. Topics and configs share a lock, because they must be consistent.
    """

    def __init__(self, data_dir: str, file_system: FileSystem, on_disk: OnDisk, shielded_tasks: ShieldedTasks) -> None:
        """Read the files of a locked data directory. Blocks. Raises OSError, MetadataFileError."""
        self._data_dir = data_dir
        self._file_system = file_system
        self._on_disk = on_disk
        self._shielded_tasks = shielded_tasks
        self.current = Metadata(**{name: file.read(file_system, data_dir) for file, name in _FIELDS.items()})
        """The metadata that requests see."""
        for file in _FIELDS:
            if file.private:
                file.remove_unfinished(file_system, data_dir)
        topics = asyncio.Lock()
        self._locks = {file: topics if file in {TOPICS, CONFIGS} else asyncio.Lock() for file in _FIELDS}
        self._prepare: dict[MetadataFile[Any], list[Watcher[Any]]] = {file: [] for file in _FIELDS}
        self._apply: dict[MetadataFile[Any], list[Watcher[Any]]] = {file: [] for file in _FIELDS}

    def watch(
        self, file: MetadataFile[ValueT], apply: Watcher[ValueT], *, prepare: Watcher[ValueT] | None = None
    ) -> None:
        """Call ``apply`` after each change of a kind, in the order of the calls of this method.

        ``prepare`` is called before the change is visible, and may raise KafkaError to undo it.
        """
        self._apply[file].append(apply)
        if prepare is not None:
            self._prepare[file].append(prepare)

    async def commit(self, file: MetadataFile[ValueT], plan: Plan[ValueT]) -> None:
        """Replace the value in ``file`` by ``plan`` of it.

        A change that has begun is completed even if the caller is cancelled. Raises KafkaError, and nothing has
        changed: that of ``plan`` or of a watcher; KAFKA_STORAGE_ERROR, then the file may have the change.
        """
        await self._shielded_tasks.run(self._commit(file, plan))

    async def _commit(self, file: MetadataFile[ValueT], plan: Plan[ValueT]) -> None:
        async with self._locks[file]:
            before = self._value(file)
            after = plan(before)
            if after == before:
                return
            await self._write(file, after)
            try:
                for prepare in self._prepare[file]:
                    await prepare(before, after)
            except KafkaError:
                await self._write(file, before)
                raise
            self.set_current(file, after)
            for apply in self._apply[file]:
                await apply(before, after)

    def commit_at_start(self, file: MetadataFile[ValueT], plan: Plan[ValueT]) -> None:
        """As ``commit``, before the broker runs: without watchers. Blocks. Raises OSError."""
        before = self._value(file)
        after = plan(before)
        if after != before:
            file.write(self._file_system, self._data_dir, after)
            self.set_current(file, after)

    def set_current(self, file: MetadataFile[ValueT], value: ValueT) -> None:
        """Replace the current value, but not the file, which the next change of this kind writes.

        For the start, and for watchers of this kind.
        """
        changed: dict[str, Any] = {_FIELDS[file]: value}
        self.current = dataclasses.replace(self.current, **changed)

    def _value(self, file: MetadataFile[ValueT]) -> ValueT:
        value: ValueT = getattr(self.current, _FIELDS[file])
        return value

    async def _write(self, file: MetadataFile[ValueT], value: ValueT) -> None:
        try:
            await self._on_disk(lambda: file.write(self._file_system, self._data_dir, value))
        except OSError as error:
            path = file.path(self._data_dir)
            logger.error("%s cannot be written: %s", path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: {error.strerror}") from error
