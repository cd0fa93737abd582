"""The log on disk, in Apache Kafka's own file formats: what a producer's batches become, and where a Fetch reads.

A data directory holds one directory per topic-partition, ``{topic}-{partition}``, and in it::

    {base_offset:020d}.log        record batches, as they came
    {base_offset:020d}.index      sparse: offset -> position in the .log
    {base_offset:020d}.timeindex  sparse: timestamp -> offset
    {base_offset:020d}.txnindex   the transactions whose abort marker is in the .log; only if there are any
    {offset:020d}.snapshot        the idempotent producers as of that offset
    leader-epoch-checkpoint       where each leader epoch began
    partition.metadata            the topic's id

What is where: ``manager`` all logs of a data directory, ``log`` one partition, ``segment`` one ``.log`` file with its
indexes, ``recovery`` what happens after a crash, ``log_cleaner`` compaction: ``cleaner`` what it keeps of a batch,
``cleaning`` how it goes through a log, ``shrinking`` how the result takes its place. Nothing here knows sockets or
event loops: file operations block, and ``log`` says what may run beside what in other threads.
"""
