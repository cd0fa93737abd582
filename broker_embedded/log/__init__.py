"""The log on disk, in Apache Kafka's own file formats: what a producer's batches become, and where a Fetch reads.

A data directory holds one directory per topic-partition, ``{topic}-{partition}``, and in it::

    {base_offset:020d}.log        record batches, as they came
    {base_offset:020d}.index      sparse: offset -> position in the .log
    {base_offset:020d}.timeindex  sparse: timestamp -> offset
    {base_offset:020d}.txnindex   the transactions whose abort marker is in the .log; only if there are any
    {offset:020d}.snapshot        the idempotent producers as of that offset
    leader-epoch-checkpoint       where each leader epoch began
    partition.metadata            the topic's id

``manager`` is all logs of a data directory, ``log`` one partition, ``local_log`` its files, ``segment`` one ``.log``
file with its indexes, ``recovery`` the recovery after a crash, ``append/`` the path of a produced batch, ``reader`` the
path of a Fetch, ``cleaner/`` compaction. Nothing here uses sockets, and only ``cleaner.threads`` an event loop: file
operations block, and ``log`` says which methods may run beside which in other threads.
"""
