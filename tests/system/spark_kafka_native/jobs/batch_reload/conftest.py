from tests.support.spark.reload_driver import story

__all__ = ["story"]
