from tests.support.spark.reload_driver import driver

__all__ = ["driver"]
