"""``configs.json``: dynamic settings, except those of topics, and feature levels.

    {"version": 1,
     "cluster": {"log.retention.ms": "60000"},
     "brokers": {"1": {"max.connections": "100"}},
     "groups": {"analysts": {"consumer.session.timeout.ms": "50000"}},
     "features": {"changes": 1, "levels": {"transaction.version": 1}}}

``features`` exists once a feature's level has been set; ``changes`` counts how often. ``cluster`` is for all brokers;
``brokers`` overrides it for one. Names of settings are not validated here. Other users of the machine cannot read the
file, because unknown settings may be secrets.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from broker_embedded._metadata.files.metadata_file import VERSION, MetadataFile, refuse_unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConfigs:
    """The content of the file: text by key, by broker and by group. Brokers and groups without settings are omitted."""

    cluster: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    feature_changes: int = 0

    def with_cluster(self, configs: Mapping[str, str]) -> Self:
        """A copy with other settings of all brokers."""
        return replace(self, cluster=dict(configs))

    def with_broker(self, node_id: int, configs: Mapping[str, str]) -> Self:
        """A copy with other settings of one broker."""
        others = {known: values for known, values in self.brokers.items() if known != node_id}
        return replace(self, brokers=others | ({node_id: dict(configs)} if configs else {}))

    def with_group(self, group_id: str, configs: Mapping[str, str]) -> Self:
        """A copy with other settings of one group."""
        others = {known: values for known, values in self.groups.items() if known != group_id}
        return replace(self, groups=others | ({group_id: dict(configs)} if configs else {}))

    def with_features(self, levels: Mapping[str, int]) -> Self:
        """A copy with other levels of some features."""
        features = {**self.features, **levels}
        if features == self.features:
            return self
        return replace(self, features=features, feature_changes=self.feature_changes + 1)


def _encode(configs: StoredConfigs) -> bytes:
    document: dict[str, object] = {
        "version": VERSION,
        "cluster": configs.cluster,
        "brokers": {str(node_id): values for node_id, values in configs.brokers.items()},
        "groups": configs.groups,
    }
    if configs.feature_changes:
        document["features"] = {"changes": configs.feature_changes, "levels": configs.features}
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def _parse(document: dict[str, Any]) -> StoredConfigs:
    refuse_unknown(document, {"version", "cluster", "brokers", "groups", "features"})
    features = document.get("features", {"changes": 0, "levels": {}})
    return StoredConfigs(
        cluster=_texts(document["cluster"]),
        brokers={int(node_id): _texts(values) for node_id, values in document["brokers"].items()},
        groups={group_id: _texts(values) for group_id, values in document["groups"].items()},
        features={name: int(level) for name, level in features["levels"].items()},
        feature_changes=int(features["changes"]),
    )


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}


CONFIGS: Final = MetadataFile(name="configs.json", encode=_encode, parse=_parse, empty=StoredConfigs, private=True)
