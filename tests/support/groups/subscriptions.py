"""Subscriptions of the classic group protocol, as members encode them."""

import struct

from spark_kafka_native._protocol.codec import encoder
from spark_kafka_native._protocol.consumer_protocol import Subscription
from spark_kafka_native._protocol.wire import Splices


def encode_subscription(subscription: Subscription, version: int) -> bytes:
    out = bytearray(struct.pack(">h", version))
    encoder(Subscription, version, False)(subscription, out, Splices())
    return bytes(out)
