"""One module per API, request and response together, all versions in one class each.

Import classes from their modules: each module costs milliseconds, and a Spark worker needs few of them.
"""

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from spark_kafka_native._protocol.schema import REQUESTS, Request


@functools.cache
def all_requests() -> Mapping[int, type[Request[Any]]]:
    """The requests of all APIs by API key; imports all modules."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return REQUESTS
