"""The KafkaError that a call raises."""

from collections.abc import Callable
from typing import Any

import pytest

from spark_kafka_native._protocol.errors import KafkaError


def refused(use: Callable[..., object], *args: Any, **kwargs: Any) -> KafkaError:
    """The error that ``use`` raises; asserts that it does."""
    with pytest.raises(KafkaError) as caught:
        use(*args, **kwargs)
    return caught.value
