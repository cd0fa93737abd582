"""Clients that log in: each produces a record and tells the values that it then reads from the start."""

import asyncio
from contextlib import closing
from typing import Any

import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]  # it has no types
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import KafkaError

VALUE = "over SASL"
_TIMEOUT_S = 20.0
_LOGIN_TIMEOUT_MS = 10_000
"""Short, because kafka-python tries again when its login was refused."""


def over_confluent(servers: str, topic: str, mechanism: str, user: str, password: str) -> list[str]:
    """confluent-kafka."""
    refused: list[KafkaError] = []

    def on_error(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            refused.append(error)

    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "error_cb": on_error,
        "log_level": 0,
    }
    producer = Producer(config)
    producer.produce(topic, VALUE.encode(), partition=0)
    while producer.flush(0.1) and not refused:
        pass
    if refused:
        raise KafkaException(refused[0])
    consumer = Consumer({**config, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [(message.value() or b"").decode() for message in consumer.consume(1, _TIMEOUT_S)]
    finally:
        consumer.close()


def _config(servers: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    """The settings of a login, as kafka-python and aiokafka name them."""
    return {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def over_kafka_python(servers: str, topic: str, *login: str) -> list[str]:
    """kafka-python."""
    config = _config(servers, *login)
    with closing(kafka.KafkaProducer(**config, bootstrap_timeout_ms=_LOGIN_TIMEOUT_MS)) as producer:
        producer.send(topic, VALUE.encode(), partition=0).get(_TIMEOUT_S)
    with closing(kafka.KafkaConsumer(**config, enable_auto_commit=False)) as consumer:
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        polled = consumer.poll(timeout_ms=int(_TIMEOUT_S * 1000), max_records=1)
    return [record.value.decode() for records in polled.values() for record in records]


async def over_aiokafka(servers: str, topic: str, *login: str) -> list[str]:
    """aiokafka."""
    config = _config(servers, *login)
    async with AIOKafkaProducer(**config) as producer:
        await producer.send_and_wait(topic, VALUE.encode(), partition=0)
    async with AIOKafkaConsumer(topic, **config, auto_offset_reset="earliest") as consumer:
        return [(await asyncio.wait_for(consumer.getone(), _TIMEOUT_S)).value.decode()]
