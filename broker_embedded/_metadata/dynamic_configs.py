"""The dynamic settings of this broker: those of all brokers, of this one and of groups.

`_metadata.store` has the steps of a change. The settings of a topic are stored with it (`_metadata.topics`).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Set

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.releases import Feature
from broker_embedded._config.settings import SettingError, no_such_setting
from broker_embedded._metadata.features import features_of, with_levels
from broker_embedded._metadata.files.stored_configs import CONFIGS, StoredConfigs
from broker_embedded._metadata.image import check_topics
from broker_embedded._metadata.store import MetadataStore, Plan
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class DynamicConfigs:
    """The dynamic settings. Belongs to the event loop."""

    def __init__(
        self, store: MetadataStore, started_with: BrokerConfig, use: Callable[[BrokerConfig], Awaitable[None]]
    ) -> None:
        """``use`` is called with each new configuration, before the response of the request."""
        stored = with_levels(started_with, store.current.configs, {})
        store.set_current(CONFIGS, stored)
        store.watch(CONFIGS, self._apply)
        self._store = store
        self._use = use
        self.started_with = started_with
        """The broker's configuration without dynamic settings."""
        self.config, self._left_out = _overridden(started_with, stored)
        """The broker's present configuration, and the stored settings that are not in it."""

    @property
    def stored(self) -> StoredConfigs:
        """The dynamic settings."""
        return self._store.current.configs

    @property
    def own(self) -> Mapping[str, str]:
        """The dynamic settings of this broker only."""
        return self.stored.brokers.get(self.started_with.node_id, {})

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features of the cluster, with their present levels."""
        return features_of(self.config, self.stored)

    async def change(self, plan: Plan[StoredConfigs], *, validate_only: bool = False) -> StoredConfigs:
        """Replace the settings by ``plan`` of the present ones. Returns the new ones.

        Raises KafkaError, and nothing has changed: that of ``plan``; INVALID_REQUEST, the configuration of the broker
        would be invalid; KAFKA_STORAGE_ERROR.
        """
        if validate_only:
            return self._planned(self.stored, plan)
        await self._store.commit(CONFIGS, lambda now: self._planned(now, plan))
        return self.stored

    def _planned(self, now: StoredConfigs, plan: Plan[StoredConfigs]) -> StoredConfigs:
        wanted = plan(now)
        try:
            config = self._configured(now, wanted)
            _check_pools(self._configured(now, now), config)
            check_topics(self._store.current.image, config.log)
        except SettingError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        return wanted

    async def _apply(self, old: StoredConfigs, new: StoredConfigs) -> None:
        if (new.cluster, new.brokers) != (old.cluster, old.brokers):
            self.config = self._configured(old, new)
            _log_without_effect(self.config, old, new)
            await self._use(self.config)

    def _configured(self, before: StoredConfigs, after: StoredConfigs) -> BrokerConfig:
        """The configuration with ``after``. Settings that were ignored at the start may stay. Raises SettingError."""
        config = self.started_with
        node_id = config.node_id
        for old, new, all_ in (
            (before.cluster, after.cluster, True),
            (before.brokers.get(node_id, {}), after.brokers.get(node_id, {}), False),
        ):
            wanted = {
                key: value
                for key, value in new.items()
                if (all_, key, value) not in self._left_out or old.get(key) != value
            }
            config = config.changed(wanted, of_all_brokers=all_)
        return config


def _overridden(started_with: BrokerConfig, stored: StoredConfigs) -> tuple[BrokerConfig, Set[tuple[bool, str, str]]]:
    """The configuration overridden by the stored settings, and those left out: whether of all brokers, key and value.

    A setting that is invalid now, because an older or newer broker stored it, is ignored with a warning: a broker
    that does not start could not be reconfigured. Settings without effect are logged.
    """
    config, left_out = started_with, set[tuple[bool, str, str]]()
    own = stored.brokers.get(config.node_id, {})
    for whose, dynamic, all_ in (("all brokers", stored.cluster, True), ("this broker", own, False)):
        for key, value in dynamic.items():
            try:
                config = config.changed({key: value}, of_all_brokers=all_)
            except SettingError as error:
                left_out.add((all_, key, value))
                logger.warning("a stored setting of %s is ignored: %s", whose, error)
    without_effect = sorted(config.unused.keys() | ((stored.cluster.keys() | own.keys()) - config.known().keys()))
    if without_effect:
        logger.info("settings without effect in this broker: %s", ", ".join(without_effect))
    return config, left_out


def _check_pools(before: BrokerConfig, after: BrokerConfig) -> None:
    """Raise SettingError for a number of threads that is less than half or more than double of the present one."""
    is_now, will_be = before.to_properties(), after.to_properties()
    for key, setting in after.known().items():
        if setting.is_pool and is_now[key] != will_be[key]:
            old, new = int(is_now[key] or 0), int(will_be[key] or 0)
            least, most = max(1, old // 2), max(1, old * 2)
            if not least <= new <= most:
                raise SettingError(key, f"the value is {old}, so that one change must set {least} to {most}")


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
