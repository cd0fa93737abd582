from tests.support.spark.reload_driver import driver
from tests.support.spark.reload_run import broker, run, topics

__all__ = ["broker", "driver", "run", "topics"]
