"""Which versions of which APIs real brokers offered, release by release, as kafka-python has copied it from them."""

import functools
import warnings


@functools.cache
def offered_by_real_brokers() -> dict[str, dict[int, tuple[int, int]]]:
    """First and last version by API key, by release, the oldest first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python opens its files
        from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
    return {
        ".".join(map(str, release)): {int(key): versions for key, versions in table.items()}
        for release, table in BROKER_API_VERSIONS.items()
    }
