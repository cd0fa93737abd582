"""Which partition of a coordinator's topic keeps what is known of an id."""


def partition_for(name: str, partitions: int) -> int:
    """The partition that holds a group or a transactional id: Java's hash of it, as Kafka maps it."""
    code = 0
    units = name.encode("utf-16-be")
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    signed = code - (1 << 32) if code & 0x80000000 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
