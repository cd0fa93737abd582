"""The settings of topics' logs: their own over the broker's."""

from broker_embedded.config.log_config import LogConfig
from broker_embedded.config.settings import ConfigError
from broker_embedded.metadata.image import ClusterImage, TopicImage


def log_config(topic: TopicImage, defaults: LogConfig) -> LogConfig:
    """The settings of a topic's logs. Raises ConfigError that names the topic."""
    try:
        return LogConfig.parse_stored(topic.configs, defaults)
    except ConfigError as error:
        raise ConfigError(f"topic {topic.name}: {error.key}", error.problem) from error


def check_topics(image: ClusterImage, defaults: LogConfig) -> None:
    """Raise ConfigError for the broker's setting that contradicts the own settings of a topic."""
    for topic in image.topics.values():
        try:
            LogConfig.parse_stored(topic.configs, defaults)
        except ConfigError as error:
            raise ConfigError(error.key, f"{error.problem} (topic {topic.name})") from error
