"""Mirrors: the topics of one or more clusters copied to another one, as MirrorMaker does.

    member of a group at the source --assigns partitions--> forwarding streams --batches--> deliveries --> target

Batches are forwarded compressed as they are (KAFKA-1001). Partitions keep their numbers. Offsets are committed after
the target has acknowledged the records (at least once), or with them in transactions of the target (exactly once).
"""
