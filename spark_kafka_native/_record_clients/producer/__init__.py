"""The producer of single records: queue, handlers, and the thread that sends."""
