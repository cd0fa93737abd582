"""The broker's settings: their names, defaults, bounds and documentation, and the values parsed from them.

`config` holds the broker's own settings, `log_config` those of topics, `listener_settings` those of listeners and
SASL, `consumer_settings` those of consumer groups. `settings` is the type of a setting, `releases` the table of Kafka
releases.
"""
