"""What a call is refused with."""

from collections.abc import Callable

import pytest

from spark_kafka_native.protocol.errors import KafkaError


def refused(use: Callable[[], object]) -> KafkaError:
    """The error that ``use`` raises; asserts that it does."""
    with pytest.raises(KafkaError) as caught:
        use()
    return caught.value
