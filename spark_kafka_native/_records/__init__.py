"""Record batches and message sets as plain bytes, shared by the client and the broker; neither numpy nor pyarrow.

``arrow`` decodes them to Arrow and encodes Arrow to them. ``_kernel`` is the compiled part of both. Nothing here uses a
socket, a clock or a thread.
"""
