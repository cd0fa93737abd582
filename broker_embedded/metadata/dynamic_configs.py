"""Settings that were made at run time, of the broker, its cluster and its groups: kept in ``configs.json``.

Those of a topic are kept with it (`metadata.topics`). No other user of the machine may read the file, because
unknown settings may be secrets. It is replaced as a whole, as ``topics.json`` is:

1. The change is checked. Crash here: nothing has happened.
2. ``configs.json`` is replaced. Crash here: the start reads it.
3. The new settings are used. The request is answered.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from broker_embedded.config.config import BrokerConfig
from broker_embedded.config.settings import ConfigError, no_such_setting
from broker_embedded.metadata import configs_file
from broker_embedded.metadata.configs_file import ConfigsFileError, StoredConfigs
from broker_embedded.metadata.features import with_levels
from broker_embedded.platform.finishing import Finishing
from broker_embedded.platform.platform import FileSystem
from broker_embedded.platform.stored_files import OnDisk, read_private_file, remove_unfinished, replace_file
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

FILE_NAME: Final = "configs.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsAtStart:
    """What a broker is started with, what was set in its earlier lives, and the configuration that both make.

    ``left_out`` are the stored settings that are not in it: whether of all brokers, key and value.
    """

    started_with: BrokerConfig
    stored: StoredConfigs
    config: BrokerConfig
    left_out: frozenset[tuple[bool, str, str]] = frozenset()

    @classmethod
    def read(cls, config: BrokerConfig, path: str, file_system: FileSystem) -> Self:
        """With what the file says, if there is one. Raises OSError, ConfigsFileError naming the file.

        A setting that cannot be any more, because an older or newer broker has made it, is left out with a warning: a
        broker that refused to start could not be reconfigured. Settings without effect are logged.
        """
        stored = StoredConfigs()
        if file_system.exists(path):
            try:
                stored = configs_file.decode(read_private_file(file_system, path))
            except ConfigsFileError as error:
                raise ConfigsFileError(f"{path}: {error}") from error
        stored = with_levels(config, stored, {})
        result, left_out = config, set[tuple[bool, str, str]]()
        own = stored.brokers.get(config.node_id, {})
        for whose, dynamic, all_ in (("all brokers", stored.cluster, True), ("this broker", own, False)):
            for key, value in dynamic.items():
                try:
                    result = result.changed({key: value}, of_all_brokers=all_)
                except ConfigError as error:
                    left_out.add((all_, key, value))
                    logger.warning("a setting of %s is left out: %s", whose, error)
        without_effect = sorted(result.unused.keys() | ((stored.cluster.keys() | own.keys()) - config.known().keys()))
        if without_effect:
            logger.info("settings without effect in this broker: %s", ", ".join(without_effect))
        return cls(started_with=config, stored=stored, config=result, left_out=frozenset(left_out))


class DynamicConfigs:
    """The settings made at run time. Changes take turns; each one that has begun is brought to its end."""

    def __init__(
        self,
        configs: ConfigsAtStart,
        *,
        path: str,
        file_system: FileSystem,
        on_disk: OnDisk,
        turn: asyncio.Lock,
        finishing: Finishing,
        check: Callable[[BrokerConfig], None],
        use: Callable[[BrokerConfig], Awaitable[None]],
    ) -> None:
        """Remove what a crash has left of the file's write. Blocks; the data directory must be locked.

        ``turn`` is held during a change, so that what topics go by does not change under it.

        ``check`` is called with each configuration that the broker would have, and raises ConfigError if it cannot.

        ``use`` is called with each that it has from then on, before the request that made it is answered.
        """
        self._started_with = configs.started_with
        self._stored = configs.stored
        self._left_out = configs.left_out
        self._path = path
        self._file_system = file_system
        self._on_disk = on_disk
        self._finishing = finishing
        self._check = check
        self._use = use
        self._turn = turn
        remove_unfinished(file_system, path)

    @property
    def started_with(self) -> BrokerConfig:
        """The broker's configuration without what was set at run time."""
        return self._started_with

    @property
    def stored(self) -> StoredConfigs:
        """What was set at run time."""
        return self._stored

    @property
    def own(self) -> Mapping[str, str]:
        """What was set of this broker alone."""
        return self._stored.brokers.get(self._started_with.node_id, {})

    async def change(
        self, plan: Callable[[StoredConfigs], StoredConfigs], *, validate_only: bool = False
    ) -> StoredConfigs:
        """Bring the settings to what ``plan`` makes of the present ones; those that result.

        Raises KafkaError, and nothing has changed: that of ``plan``; INVALID_REQUEST, the broker cannot be configured
        so; KAFKA_STORAGE_ERROR.
        """
        return await self._finishing.finish(self._change(plan, validate_only))

    async def _change(self, plan: Callable[[StoredConfigs], StoredConfigs], validate_only: bool) -> StoredConfigs:
        async with self._turn:
            wanted = plan(self._stored)
            try:
                config = self._configured(wanted)
                _check_pools(self._configured(self._stored), config)
                self._check(config)
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
            if not validate_only and wanted != self._stored:
                raw = configs_file.encode(wanted)
                await replace_file(self._on_disk, self._file_system, self._path, raw, private=True)
                before, self._stored = self._stored, wanted
                if (wanted.cluster, wanted.brokers) != (before.cluster, before.brokers):
                    _log_without_effect(config, before, wanted)
                    await self._use(config)
            return wanted

    def _configured(self, stored: StoredConfigs) -> BrokerConfig:
        """The broker's configuration. Raises ConfigError, not for what was left out at the start and is as it was."""
        config = self._started_with
        own = stored.brokers.get(config.node_id, {})
        for before, after, all_ in ((self._stored.cluster, stored.cluster, True), (self.own, own, False)):
            wanted = {
                key: value
                for key, value in after.items()
                if (all_, key, value) not in self._left_out or before.get(key) != value
            }
            config = config.changed(wanted, of_all_brokers=all_)
        return config


def _check_pools(before: BrokerConfig, after: BrokerConfig) -> None:
    """Raise ConfigError for a number of threads that changes by more than Apache Kafka allows in one step."""
    is_now, will_be = before.spelled(), after.spelled()
    for key, setting in after.known().items():
        if setting.is_pool and is_now[key] != will_be[key]:
            old, new = int(is_now[key] or 0), int(will_be[key] or 0)
            least, most = max(1, old // 2), max(1, old * 2)
            if not least <= new <= most:
                raise ConfigError(key, f"it is {old}; one change can set it to {least} to {most}")


def _log_without_effect(config: BrokerConfig, before: StoredConfigs, after: StoredConfigs) -> None:
    """Log each setting of a change that has no effect in this broker."""
    known = config.known()
    for old, new in (
        (before.cluster, after.cluster),
        (before.brokers.get(config.node_id, {}), after.brokers.get(config.node_id, {})),
    ):
        made = sorted(key for key in new if new[key] != old.get(key))
        unknown = [key for key in made if key not in known]
        for key in made:
            if key in known and known[key].no_effect:
                logger.warning("%s is stored and has no effect in this broker: %s", key, known[key].no_effect)
        for key in unknown:  # the search for the nearest setting takes 10 ms
            problem = no_such_setting(key, known if len(unknown) == 1 else ())
            logger.warning("%.100r is stored and has no effect in this broker: %s", key, problem)
