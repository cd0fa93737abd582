"""The log on disk, in Apache Kafka's own file formats: appends of producers, reads of Fetch requests.

A data directory holds one directory per topic-partition, ``{topic}-{partition}``, which contains::

    {base_offset:020d}.log        record batches
    {base_offset:020d}.index      sparse: offset -> position in the .log
    {base_offset:020d}.timeindex  sparse: timestamp -> offset
    {base_offset:020d}.txnindex   the transactions whose abort marker is in the .log; only if there are any
    {offset:020d}.snapshot        the idempotent producers as of that offset
    leader-epoch-checkpoint       where each leader epoch began
    partition.metadata            the topic's id

``manager`` has all logs of a data directory, ``log`` one partition, ``local_log`` its files, ``segment`` one ``.log``
file with its indexes. ``recovery`` repairs a log after a crash, ``append/`` and ``appender`` append, ``reader`` reads,
``cleaner/`` compacts. File operations block. Only ``cleaner.threads`` uses an event loop. The docstring of ``log`` says
which methods may run at the same time.
"""
