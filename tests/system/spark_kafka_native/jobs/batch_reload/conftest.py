from tests.support.reload_driver import story

__all__ = ["story"]
