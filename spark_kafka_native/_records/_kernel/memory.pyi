"""What the other modules take and make; nothing to call."""

from collections.abc import Callable
from typing import Any, TypeAlias

Buffer: TypeAlias = Any
"""What has the buffer protocol; collections.abc.Buffer is of 3.12, and numpy's arrays are none before."""

Allocate: TypeAlias = Callable[[int], Buffer]
"""Makes writable memory of a number of bytes."""
