"""The options of ``delivery.guarantee`` = exactly-once, and the options that contradict it."""

from collections.abc import Mapping
from typing import Any, Final

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.timing import Timing, timing_of
from spark_kafka_native._spark.options.companions import remark
from spark_kafka_native._spark.options.parsed import ExactlyOnce

GUARANTEE: Final = "delivery.guarantee"
PREFIX: Final = "transactional.id.prefix"
TIMEOUT: Final = "kafka.transaction.timeout.ms"
RECOVERY: Final = "transaction.recovery.time.ms"
DEFAULT_TIMEOUT_MS: Final = 900_000
"""The default of the brokers' ``transaction.max.timeout.ms``."""
DEFAULT_RECOVERY_MS: Final = 300_000
MIN_TIMEOUT_MS: Final = 30_000
MIN_REST_MS: Final = 20_000
"""Least part of the timeout besides the time for a restart, without which no batch would be committed."""
_ASYNC_PROGRESS: Final = "asyncProgressTrackingEnabled"


def exactly_once(
    values: Mapping[str, Any], client: ClientConfig, options_of_spark: Mapping[str, str]
) -> ExactlyOnce | None:
    """The parsed options; None: at least once. ``options_of_spark``: all options by lower-case name.

    Raises OptionError.
    """
    if values.get(GUARANTEE) != "exactly-once":
        for name in (PREFIX, RECOVERY):
            if name in values:
                raise OptionError(name, f"requires option '{GUARANTEE}' = exactly-once")
        if TIMEOUT in values:
            remark(f"option '{TIMEOUT}' has no effect without '{GUARANTEE}' set to exactly-once")
        return None
    _check_companions(client, options_of_spark)
    if PREFIX not in values:
        raise OptionError(PREFIX, f"is required with '{GUARANTEE}' = exactly-once, and no other query may use it")
    return ExactlyOnce(names=Names(prefix=values[PREFIX]), timing=_timing(values))


def _timing(values: Mapping[str, Any]) -> Timing:
    timeout_ms = values.get(TIMEOUT, DEFAULT_TIMEOUT_MS)
    if timeout_ms < MIN_TIMEOUT_MS:
        least = f"{MIN_TIMEOUT_MS}, the least value with '{GUARANTEE}' = exactly-once"
        raise OptionError(TIMEOUT, f"{timeout_ms} is less than {least}")
    recovery_ms = values.get(RECOVERY, min(DEFAULT_RECOVERY_MS, timeout_ms // 3))
    if recovery_ms > timeout_ms - MIN_REST_MS:
        raise OptionError(
            RECOVERY,
            f"{recovery_ms} leaves less than {MIN_REST_MS} ms of '{TIMEOUT}' = {timeout_ms} to write a batch and "
            "decide about it",
        )
    return timing_of(timeout_ms, recovery_ms)


def _check_companions(client: ClientConfig, options_of_spark: Mapping[str, str]) -> None:
    with_guarantee = f"with '{GUARANTEE}' set to exactly-once"
    if client.acks != -1:
        raise OptionError("kafka.acks", f"must be all {with_guarantee}")
    if client.retries == 0:
        raise OptionError("kafka.retries", f"must not be 0 {with_guarantee}")
    if not client.enable_idempotence:
        raise OptionError("kafka.enable.idempotence", f"must be true {with_guarantee}")
    if options_of_spark.get(_ASYNC_PROGRESS.lower(), "").strip().lower() == "true":
        raise OptionError(
            _ASYNC_PROGRESS,
            f"cannot be true {with_guarantee}: Spark then runs batches again that were committed, and skips numbers",
        )
