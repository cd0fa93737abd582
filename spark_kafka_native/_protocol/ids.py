"""Ids of topics, clusters and directories as text."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID, uuid4


def new_id() -> UUID:
    """A random id whose text does not begin with a dash, because command lines would take it for an option."""
    while True:
        uuid = uuid4()
        if not format_id(uuid).startswith("-"):
            return uuid


def format_id(uuid: UUID) -> str:
    """An id as Kafka writes it: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(uuid.bytes).rstrip(b"=").decode()


def parse_id(text: str) -> UUID:
    """The id that ``text`` holds, in Kafka's base64 form. Raises ValueError."""
    try:
        return UUID(bytes=urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        raise ValueError(f"{text!r} is no base64 id of 16 bytes") from None
