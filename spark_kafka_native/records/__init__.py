"""Record batches and the columns in them: the one place where Kafka's bytes become Arrow, and Arrow Kafka's bytes.

``batch``, ``compression``, ``control``, ``legacy``, ``formats`` and ``conversion`` deal in plain bytes and import
neither numpy nor pyarrow; ``decode`` and ``encode`` import both. What these do record by record is compiled
(``_kernel``) where it could be built, else vectorised; ``kernel`` has the choice. Nothing here touches a socket, a
clock or a thread.
"""
