"""Options that need other options, and options that contradict each other."""

import functools
import logging
from collections.abc import Mapping
from typing import Any, Final

from spark_kafka_native._client.partitioning.partitioner_names import LOOKUP
from spark_kafka_native._protocol.topic import listed
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.offsets import SpecificOffsets
from spark_kafka_native._spark.subscription import internal_topics

LOOKUP_TABLE: Final = "lookupTable"
_log = logging.getLogger(__name__)


def check_companions(values: Mapping[str, Any]) -> None:
    """Raise OptionError for an option that has no effect without another one.

    If the JVM connector ignores it silently, log a warning instead.
    """
    for edge in ("starting", "ending"):
        _check_default(values, edge)
    committed = values.get("startingOffsets") == "committed"
    if committed and "kafka.group.id" not in values:
        raise OptionError("startingOffsets", "committed needs option 'kafka.group.id', the group whose offsets to use")
    if "startingOffsetsWithoutCommit" in values and not committed:
        raise OptionError("startingOffsetsWithoutCommit", "requires option 'startingOffsets' = committed")
    if values.get("commitOffsetsToGroup") and "kafka.group.id" not in values:
        raise OptionError("commitOffsetsToGroup", "needs option 'kafka.group.id', the group to commit to")
    if "kafka.group.id" in values and not committed and not values.get("commitOffsetsToGroup"):
        remark("option 'kafka.group.id' has no effect without 'commitOffsetsToGroup': reading joins no group")
    least, most = values.get("minPartitions"), values.get("maxPartitions")
    if least is not None and most is not None and least > most:
        raise OptionError("minPartitions", f"{least} is greater than maxPartitions, {most}")
    for name in ("subscribe", "assign"):
        if name in values and (internal := internal_topics(values[name])):
            remark(f"option '{name}' names internal topics, which are not read: {listed(internal)}")
    if "groupIdPrefix" in values:
        remark("option 'groupIdPrefix' has no effect: reading joins no group, so none is named")


def check_rates(values: Mapping[str, Any]) -> None:
    """Raise OptionError if ``minOffsetsPerTrigger`` is greater than ``maxOffsetsPerTrigger``."""
    least, most = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if least is None:
        if "maxTriggerDelay" in values:
            remark("option 'maxTriggerDelay' has no effect without 'minOffsetsPerTrigger'")
    elif most is not None and least > most:
        raise OptionError("minOffsetsPerTrigger", f"{least} is greater than maxOffsetsPerTrigger, {most}")


def check_lookup(values: Mapping[str, Any]) -> None:
    """Raise OptionError if only one of ``partitioner`` = lookup and ``lookupTable`` is given."""
    is_lookup = values.get("partitioner") == LOOKUP
    if is_lookup and LOOKUP_TABLE not in values:
        raise OptionError(LOOKUP_TABLE, "is required with option 'partitioner' = lookup: topic:NAME or file:/PATH")
    if LOOKUP_TABLE in values and not is_lookup:
        raise OptionError(LOOKUP_TABLE, "requires option 'partitioner' = lookup")


def _check_default(values: Mapping[str, Any], edge: str) -> None:
    name, by_timestamp = f"{edge}OffsetsDefault", f"{edge}OffsetsByTimestamp"
    if name not in values or by_timestamp in values or isinstance(values.get(f"{edge}Offsets"), SpecificOffsets):
        return
    text = f"has an effect only with the JSON of '{edge}Offsets' or '{by_timestamp}', for partitions without a position"
    raise OptionError(name, text)


@functools.cache
def remark(text: str) -> None:
    """Log a warning once per process, because Spark parses the options of a query several times."""
    _log.warning("%s", text)
