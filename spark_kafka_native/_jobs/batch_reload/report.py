"""The output for the user: plan, progress, result of a check, and a line with the result of the run."""

from collections import Counter
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from spark_kafka_native._jobs.batch_reload.clean import Unneeded
from spark_kafka_native._jobs.batch_reload.manifest import Manifest
from spark_kafka_native._jobs.batch_reload.plan import Plan
from spark_kafka_native._jobs.batch_reload.verify import RangeVerdict, Report
from spark_kafka_native._protocol.errors import counted

_SHOWN_AT_MOST = 200


def progress_bar(console: Console) -> Progress:
    """A bar that counts tasks."""
    return Progress(
        TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def plan_table(plan: Plan) -> Table:
    """A plan, one line per partition and a sum."""
    table = Table(box=box.SIMPLE_HEAD, show_footer=True)
    table.add_column("partition", footer="all")
    for name in ("from", "until"):
        table.add_column(name, justify="right")
    table.add_column("offsets", justify="right", footer=f"{plan.records:,}")
    table.add_column("tasks", justify="right", footer=f"{len(plan.pieces):,}")
    table.add_column("files")
    tasks = Counter(piece.topic_partition for piece in plan.pieces)
    for part in plan.partitions[:_SHOWN_AT_MOST]:
        numbers = (part.read_from, part.until_offset, part.records, tasks[part.partition])
        notes = []
        if part.starts_over:
            notes.append("all replaced: the topic was recreated")
        elif part.replaced:
            notes.append(f"replaces {len(part.replaced)}")
        if part.lost:
            notes.append(f"offsets [{part.lost[0]}, {part.lost[1]}) were deleted")
        table.add_row(str(part.partition), *(f"{number:,}" for number in numbers), "; ".join(notes))
    if (more := len(plan.partitions) - _SHOWN_AT_MOST) > 0:
        table.add_row(f"and {more:,} more", "", "", "", "", "")
    return table


def plan_records(plan: Plan) -> Iterator[dict[str, object]]:
    """A plan in JSON: an object per partition."""
    tasks = Counter(piece.topic_partition for piece in plan.pieces)
    for part in plan.partitions:
        yield {
            "action": "dry-run",
            "topic": part.partition.topic,
            "partition": part.partition.partition,
            "from": part.read_from,
            "until": part.until_offset,
            "offsets": part.records,
            "tasks": tasks[part.partition],
            "startsOver": part.starts_over,
            "replaces": len(part.replaced),
            "lost": None if not part.lost else [part.lost[0], part.lost[1]],
        }


def report_table(report: Report) -> Table:
    """A check: verdicts by topic."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("topic")
    table.add_column("verdict")
    for name in ("ranges", "rows"):
        table.add_column(name, justify="right")
    ranges = Counter((each.topic, each.verdict) for each in report.checked)
    rows: Counter[tuple[str, str]] = Counter()
    for each in report.checked:
        rows[each.topic, each.verdict] += each.rows
    for topic, verdict in sorted(ranges):
        style = "" if RangeVerdict(verdict).correct else "red"
        key = (topic, verdict)
        table.add_row(topic, verdict, f"{ranges[key]:,}", f"{rows[key]:,}", style=style)
    return table


def complaints(report: Report) -> list[str]:
    """The errors, a line each, at most ``_SHOWN_AT_MOST``."""
    lines = list(report.problems)
    for each in report.checked:
        if not RangeVerdict(each.verdict).correct:
            where = f"{each.topic}-{each.partition} offsets [{each.from_offset}, {each.until_offset})"
            counts = (
                f": {counted(each.rows, 'row')}, {each.counted:,} in the topic" if each.counted != each.rows else ""
            )
            lines.append(f"{where} {each.verdict}{counts}{f' ({each.path})' if each.path else ''}")
    more = len(lines) - _SHOWN_AT_MOST
    return lines if more <= 0 else [*lines[:_SHOWN_AT_MOST], f"and {more:,} more"]


def loaded_line(manifest: Manifest, load_id: str, plan: Plan, where: str) -> str:
    """The result of a load."""
    mine = [entry for entry in manifest.entries if entry.load_id == load_id]
    rows, files = sum(entry.rows for entry in mine), sum(1 for entry in mine if entry.path)
    has_files = files or not plan.records
    what = f"{counted(rows, 'record')} in {counted(files, 'file')}" if has_files else counted(plan.records, "offset")
    return f"loaded {what} of {counted(len(plan.partitions), 'partition')} into {where}, version {manifest.version}"


def loaded_record(manifest: Manifest | None, load_id: str | None, plan: Plan) -> dict[str, object]:
    """The result of a load in JSON; ``load_id`` None: there was nothing to load."""
    mine = [] if manifest is None else [entry for entry in manifest.entries if entry.load_id == load_id]
    return {
        "action": "load",
        "version": None if manifest is None else manifest.version,
        "loadId": load_id,
        "records": sum(entry.rows for entry in mine) if mine or load_id is None else plan.records,
        "files": sum(1 for entry in mine if entry.path),
        "partitions": len(plan.partitions),
    }


def verified_line(found: Report, manifest: Manifest) -> str:
    """The result of a check."""
    verdict = "is correct" if found.correct else "is NOT correct"
    return (
        f"version {found.version} {verdict}: {counted(len(found.checked), 'range')}, "
        f"{counted(manifest.rows, 'row')}; the records of {counted(found.counted, 'range')} were counted in the "
        "topics"
    )


def verified_record(found: Report, manifest: Manifest) -> dict[str, object]:
    """The result of a check in JSON."""
    return {
        "action": "verify",
        "version": found.version,
        "correct": found.correct,
        "ranges": len(found.checked),
        "rows": manifest.rows,
        "rangesCounted": found.counted,
        "problems": complaints(found),
    }


def cleaned_record(unneeded: Unneeded) -> dict[str, object]:
    """The result of a clean in JSON."""
    return {
        "action": "clean",
        "files": len(unneeded.files),
        "bytes": unneeded.bytes,
        "versions": len(unneeded.versions),
        "deadLoads": [*unneeded.dead_loads],
    }


def cleaned_line(unneeded: Unneeded) -> str:
    """The result of a clean."""
    dead = f", of {counted(len(unneeded.dead_loads), 'dead run')} among others" if unneeded.dead_loads else ""
    files = f"{counted(len(unneeded.files), 'file')} ({counted(unneeded.bytes, 'byte')}{dead})"
    return f"removed {files} and {counted(len(unneeded.versions), 'version')}"
