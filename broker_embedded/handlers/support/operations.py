"""What a client may do with a resource, as bits at the places of Kafka's codes (KIP-430).

Without an authorizer, as here, that is every operation that a resource knows.
"""

from typing import Final

NOT_ASKED: Final = -(2**31)
"""What stands there for a client that did not ask."""
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, write, create, delete, alter, describe, describe and alter configs."""
CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
"""Create, alter, describe, cluster action, describe and alter configs, idempotent write."""
GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe and alter configs."""
