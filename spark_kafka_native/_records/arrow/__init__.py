"""Record batches to Arrow and Arrow to record batches; the only part of ``records`` that imports numpy and pyarrow."""
