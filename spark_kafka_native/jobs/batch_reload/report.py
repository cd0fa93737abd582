"""What the user sees: the plan, the progress, the outcome of a check, and one line that says how it went."""

from collections import Counter

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from spark_kafka_native.jobs.batch_reload.clean import Rubbish
from spark_kafka_native.jobs.batch_reload.manifest import Manifest
from spark_kafka_native.jobs.batch_reload.plan import Plan
from spark_kafka_native.jobs.batch_reload.verify import Report, Verdict

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
    table.add_column("files there are")
    tasks = Counter(piece.topic_partition for piece in plan.pieces)
    for part in plan.partitions[:_SHOWN_AT_MOST]:
        numbers = (part.read_from, part.until_offset, part.records, tasks[part.partition])
        notes = []
        if part.starts_over:
            notes.append("all go: it is another topic of that name")
        elif part.replaced:
            notes.append(f"replaces {len(part.replaced)}")
        if part.lost:
            notes.append(f"offsets [{part.lost[0]}, {part.lost[1]}) are gone")
        table.add_row(str(part.partition), *(f"{number:,}" for number in numbers), "; ".join(notes))
    if (more := len(plan.partitions) - _SHOWN_AT_MOST) > 0:
        table.add_row(f"and {more:,} more", "", "", "", "", "")
    return table


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
        style = "" if Verdict(verdict).good else "red"
        key = (topic, verdict)
        table.add_row(topic, verdict, f"{ranges[key]:,}", f"{rows[key]:,}", style=style)
    return table


def complaints(report: Report) -> list[str]:
    """What is wrong, a line each, at most so many."""
    lines = list(report.problems)
    for each in report.checked:
        if not Verdict(each.verdict).good:
            where = f"{each.topic}-{each.partition} offsets [{each.from_offset}, {each.until_offset})"
            counts = f": {each.rows:,} rows, {each.counted:,} in the topic" if each.counted != each.rows else ""
            lines.append(f"{where} {each.verdict}{counts}{f' ({each.path})' if each.path else ''}")
    more = len(lines) - _SHOWN_AT_MOST
    return lines if more <= 0 else [*lines[:_SHOWN_AT_MOST], f"and {more:,} more"]


def loaded_line(manifest: Manifest, load_id: str, plan: Plan, where: str) -> str:
    """How a load went."""
    mine = [entry for entry in manifest.entries if entry.load_id == load_id]
    rows, files = sum(entry.rows for entry in mine), sum(1 for entry in mine if entry.path)
    what = f"{rows:,} records in {files:,} files" if files or not plan.records else f"{plan.records:,} offsets"
    return f"loaded {what} of {len(plan.partitions):,} partitions into {where}, version {manifest.version}"


def cleaned_line(rubbish: Rubbish) -> str:
    """How a clean went."""
    dead = f", of {len(rubbish.dead_loads):,} dead runs among others" if rubbish.dead_loads else ""
    return (
        f"removed {len(rubbish.files):,} files ({rubbish.bytes:,} bytes{dead}) and {len(rubbish.versions):,} versions"
    )
