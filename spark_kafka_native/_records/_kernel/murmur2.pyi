"""murmur2, as Java's partitioner takes it of keys."""

from spark_kafka_native._records._kernel.memory import Buffer

def murmur2(data: Buffer, starts: Buffer, lengths: Buffer) -> bytearray: ...
