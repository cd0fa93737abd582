"""A target, and topics to load into it."""

from tests.support.reload_driver import story

__all__ = ["story"]
