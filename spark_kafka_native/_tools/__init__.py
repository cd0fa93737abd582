"""Kafka's command-line tools that talk to a cluster, with the same names and options.

``broker_embedded.tools`` has those that start a broker, format its storage or read its files.
"""
