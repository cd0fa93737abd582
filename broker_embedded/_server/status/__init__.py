"""The status page of a broker: static files, and the JSON that its script reads.

`page` routes requests. `overview` and `coordination` describe the broker, its topics and its groups, `records` reads
records, which `avro` decodes in a process of its own. `messages` stores the last warnings. `query` validates the fields
of requests and bounds the rows of responses.

Everything is read-only. A response has at most 500 rows or 4 MiB of records.
"""
