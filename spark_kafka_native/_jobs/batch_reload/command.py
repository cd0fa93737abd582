"""The job: from the command line to an exit status."""

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from rich.console import Console

from spark_kafka_native._client.admin.configs import Resource, ResourceType, describe_configs
from spark_kafka_native._client.cluster.shared import shared_cluster
from spark_kafka_native._command_line.commands import Command, Options
from spark_kafka_native._command_line.commands import run as run_command
from spark_kafka_native._command_line.output import say_json
from spark_kafka_native._java import ensure_java
from spark_kafka_native._jobs.batch_reload import report
from spark_kafka_native._jobs.batch_reload.appending import append_rows, append_to, records_of
from spark_kafka_native._jobs.batch_reload.arguments import ABOUT, EXAMPLES, Arguments, parse_arguments, reload_options
from spark_kafka_native._jobs.batch_reload.bounds import check_unchanged, resolve_wanted
from spark_kafka_native._jobs.batch_reload.clean import clean
from spark_kafka_native._jobs.batch_reload.columns import row_schema, schema_of, stored_format
from spark_kafka_native._jobs.batch_reload.errors import ReloadError, UsageError
from spark_kafka_native._jobs.batch_reload.formats import COMPRESSIONS, file_format
from spark_kafka_native._jobs.batch_reload.leases import new_load_id, other_runs
from spark_kafka_native._jobs.batch_reload.loading import FileLoad, load_files
from spark_kafka_native._jobs.batch_reload.manifest import Manifest, StoredFormat
from spark_kafka_native._jobs.batch_reload.plan import Plan, make_plan
from spark_kafka_native._jobs.batch_reload.running import SparkRunner, Watch
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from spark_kafka_native._jobs.batch_reload.target import check_own, errors_named, prepare
from spark_kafka_native._jobs.batch_reload.verify import VerifyJob, check_version, grouped
from spark_kafka_native._jobs.batch_reload.versions import read_version, with_all_entries
from spark_kafka_native._jobs.batch_reload.writing import WriteJob
from spark_kafka_native._jobs.failures import complain, note, reason_of, reporting
from spark_kafka_native._jobs.interrupts import run_interruptible
from spark_kafka_native._jobs.points import ClusterState, cluster_state
from spark_kafka_native._jobs.session import spark_session
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.errors import KafkaError, counted
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.assignment import select_existing
from spark_kafka_native._spark.planning.bounds import Clock
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native._spark.source.layout import layout_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job, print its result, and return the exit status."""
    return run_command(batch_reload, "batch_reload", sys.argv[1:] if arguments is None else arguments)


@click.command("reload", cls=Command, help=ABOUT, epilog=EXAMPLES)
@reload_options
def batch_reload(**given: Any) -> int:
    """Run it until it is done or interrupted."""
    outcome = RunOutcome()
    return run_interruptible(
        lambda: _run_and_report(Options(**given), outcome),
        lambda: note("; ".join(filter(None, ("interrupted", outcome.text))), style="red"),
    )


@dataclasses.dataclass(slots=True)
class RunOutcome:
    """What a run has published so far, for the line that it prints if it is interrupted. Only some actions publish."""

    text: str = ""


def _run_and_report(options: Options, outcome: RunOutcome) -> int:
    # With --json stdout has nothing else.
    console = Console(highlight=False, markup=False, stderr=options.as_json)

    def run() -> int:
        given = parse_arguments(options)
        try:
            return Job(given, console, outcome).run()
        except (ConfigError, OptionError) as error:
            raise given.named(error) from error

    try:
        return reporting(run)
    except ReloadError as error:
        return complain(str(error), error.status)


class Job:
    """One run of the job."""

    def __init__(self, arguments: Arguments, console: Console, outcome: RunOutcome) -> None:
        """Raises UsageError: there is no such storage."""
        self._outcome = outcome
        self._arguments = arguments
        self._console = console
        try:
            self._storage: Storage = arguments.location.open()
        except UsageError as error:
            raise UsageError(f"{arguments.location_option}: {error}") from None

    def run(self) -> int:
        """Run the chosen action; the exit status."""
        match self._arguments.action:
            case "clean":
                return self._clean()
            case "verify":
                return self._verify()
            case _:
                return self._load()

    def _clean(self) -> int:
        given = self._arguments
        if self._version() is None and not check_own(self._storage, given.location_option):
            raise UsageError(f"{given.location_option}: {self._storage.url}: nothing has been loaded there")
        self._outcome.text = "--clean can be run again"
        with errors_named(self._storage, given.location_option):
            removed = clean(self._storage, now_s=time.time(), lease_s=given.lease_s, keep_versions=given.keep_versions)
        self._say(report.cleaned_line(removed), report.cleaned_record(removed))
        return 0

    def _load(self) -> int:
        given = self._arguments
        if given.action == "load":
            self._outcome.text = "nothing was published"
        base = self._version()
        if base is None:
            check_own(self._storage, given.location_option)
        if base is not None and given.start is not None:
            base = with_all_entries(self._storage, base)
        form = stored_format(base, name=given.format, columns=given.columns, as_string=given.as_string)
        is_files = form.name in COMPRESSIONS
        if is_files:
            file_format(form.name, given.compression)
        plan = self._plan(base)
        if given.action == "dry-run":
            self._show(plan)
            return 0
        if not plan.changes(base):
            at = f" after version {base.version}" if base else ""
            has = "has" if len(plan.partitions) == 1 else "have"
            text = f"nothing to load{at}: {counted(len(plan.partitions), 'partition')} {has} nothing new"
            self._say(text, report.loaded_record(base, None, plan))
            return 0
        if plan.replaces and not is_files:
            raise UsageError(
                f"{given.start_option}: {form.name} cannot be loaded again, because rows that are written cannot be "
                "deleted"
            )
        ensure_java()  # before the target is created, so that its error leaves nothing
        prepare(self._storage, given.location_option)
        load_id = new_load_id(time.time())
        self._warn_of_others(load_id)
        with self._spark() as spark, report.progress_bar(self._console) as progress:
            bar = progress.add_task("load", total=len(plan.pieces))
            runner = SparkRunner(spark, f"load {self._storage.url}")

            def watch(done: int) -> None:
                progress.update(bar, completed=done)

            if is_files:
                made = self._load_files(base, form, plan, load_id, runner, watch)
            else:
                made = self._append(base, form, plan, load_id, spark, runner, watch)
            self._outcome.text = f"version {made.version} was published"
            progress.update(bar, completed=len(plan.pieces))
        where = given.target or given.table or form.name
        self._say(report.loaded_line(made, load_id, plan, where), report.loaded_record(made, load_id, plan))
        return 0

    def _show(self, plan: Plan) -> None:
        if self._arguments.as_json:
            for record in report.plan_records(plan):
                say_json(record)
        else:
            self._console.print(report.plan_table(plan))

    def _version(self, number: int | None = None) -> Manifest | None:
        """As ``read_version``; errors name the option of the target, or --version."""
        with errors_named(self._storage, self._arguments.location_option):
            try:
                return read_version(self._storage, number)
            except UsageError as error:
                raise UsageError(f"--version: {error}") from None

    def _plan(self, base: Manifest | None) -> Plan:
        given = self._arguments
        options = self._options()
        source = ClusterOffsets(options.client)
        selection = select_existing(options, source, Clock(), option="--topics")
        state = cluster_state(source, selection.partitions)
        wanted = resolve_wanted(
            source, state, given.start, given.until, accept_loss=given.accept_data_loss, start_option=given.start_option
        )
        return make_plan(
            base, state, wanted, min_tasks=given.min_tasks, max_records_per_task=given.max_records_per_task
        )

    def _load_files(
        self, base: Manifest | None, form: StoredFormat, plan: Plan, load_id: str, runner: SparkRunner, watch: Watch
    ) -> Manifest:
        options = self._options()
        job = WriteJob(
            location=self._arguments.location,
            load_id=load_id,
            source=options,
            layout=layout_of(schema_of(form), options.invalid_utf8),
            format=file_format(form.name, self._arguments.compression),
        )
        load = FileLoad(
            load_id=load_id,
            base=base,
            plan=plan,
            format=form,
            task=job.run,
            check=functools.partial(self._before_publishing, plan),
        )
        return load_files(self._storage, load, runner, watch)

    def _append(
        self,
        base: Manifest | None,
        form: StoredFormat,
        plan: Plan,
        load_id: str,
        spark: SparkSession,
        runner: SparkRunner,
        watch: Watch,
    ) -> Manifest:
        given = self._arguments
        schema = row_schema(form.name, given.columns, given.as_string)
        tasks = {"minPartitions": given.min_tasks, "maxRecordsPerPartition": given.max_records_per_task}
        frame = records_of(spark, plan, dict(given.source_options), schema, load_id, tasks=tasks)
        append_all = functools.partial(
            append_to,
            frame,
            format_name=form.name,
            path=given.target,
            table=given.table,
            options=dict(given.write_options),
        )

        def write(renew: Watch) -> None:
            def both(done: int) -> None:
                renew(done)
                watch(done)

            try:
                runner.watched(append_all, both)
            except Py4JJavaError as error:  # of a format: Spark's own errors and those of tasks are PySparkExceptions
                reason = reason_of(error).rstrip(".")
                raise ReloadError(
                    f"--format {form.name}: {reason}. Check --write-option, and that Spark has the classes of the "
                    "format (--jars or --packages of spark-submit)"
                ) from error

        self._outcome.text = f"nothing was published; rows with load_id {load_id} that were written do not count"
        now_ms, check = time.time() * 1000, functools.partial(self._before_publishing, plan)
        return append_rows(self._storage, load_id, base, plan, form.name, write, check=check, now_ms=now_ms)

    def _before_publishing(self, plan: Plan) -> None:
        """Check that the topics have not changed, and note that an interrupt from now on may come after publishing."""
        check_unchanged(ClusterOffsets(self._options().client), plan)
        self._outcome.text = "the version may have been published; the next run continues after the latest version"

    def _verify(self) -> int:
        manifest = self._version(self._arguments.version)
        if manifest is None or not manifest.positions:  # a clean may precede the first load
            raise UsageError(f"{self._arguments.location_option}: {self._storage.url}: nothing has been loaded there")
        manifest = with_all_entries(self._storage, manifest)
        groups = grouped(manifest.entries)
        options = self._options_for(manifest)
        state = self._present_state(manifest, options)
        known = manifest.topic_ids
        present = {tp.topic for tp in state.first}
        recreated = frozenset(topic for topic in known.keys() & present if known[topic] != state.topic_ids.get(topic))
        job = VerifyJob(
            location=self._arguments.location,
            source=options,
            layout=layout_of(row_schema("", ["offset"], frozenset())),
            first={tp: first for tp, first in state.first.items() if tp.topic not in recreated},
            recreated=recreated,
            compacted=self._compacted(manifest, options),
        )
        with self._spark() as spark, report.progress_bar(self._console) as progress:
            bar = progress.add_task("verify", total=len(groups))
            runner = SparkRunner(spark, f"verify {self._storage.url}")
            found = check_version(manifest, groups, job, runner, lambda done: progress.update(bar, completed=done))
        if not self._arguments.as_json:
            self._console.print(report.report_table(found))
            for line in report.complaints(found):
                self._console.print(line, soft_wrap=True)
        self._say(report.verified_line(found, manifest), report.verified_record(found, manifest))
        return 0 if found.correct else 1

    def _present_state(self, manifest: Manifest, options: SourceOptions) -> ClusterState:
        """The partitions of a version that exist."""
        source = ClusterOffsets(options.client)
        present = source.topics(sorted({tp.topic for tp in manifest.positions}))
        return cluster_state(source, [tp for tp in manifest.positions if tp.partition in present.get(tp.topic, ())])

    def _compacted(self, manifest: Manifest, options: SourceOptions) -> frozenset[str]:
        cluster = shared_cluster(options.client)
        compacted: set[str] = set()
        for topic in sorted({tp.topic for tp in manifest.positions}):
            with contextlib.suppress(KafkaError):  # deleted, or no permission: it counts as not compacted
                resource = Resource(type=ResourceType.TOPIC, name=topic)
                policy = describe_configs(cluster, resource, ["cleanup.policy"]).get("cleanup.policy")
                compacted |= {topic} if policy and "compact" in (policy.value or "") else set()
        return frozenset(compacted)

    def _options(self) -> SourceOptions:
        """Options of the source. Deleted records always fail a task, because the plan handles them."""
        return _source_options(dict(self._arguments.source_options))

    def _options_for(self, manifest: Manifest) -> SourceOptions:
        """As ``_options``, with the topics of a manifest instead of those of the command line."""
        given = self._arguments.source_options
        others = {name: value for name, value in given if not name.startswith("subscribe")}
        return _source_options({**others, "subscribe": ",".join(sorted({tp.topic for tp in manifest.positions}))})

    def _warn_of_others(self, load_id: str) -> None:
        live = [run for run in other_runs(self._storage, load_id, time.time()) if run.age_s <= self._arguments.lease_s]
        for run in live:
            note(
                f"{run.holder} also loads into this target (lease of {run.age_s:.0f} s ago); only the first can publish"
            )

    def _say(self, text: str, record: Mapping[str, object]) -> None:
        """Print the result of the run."""
        if self._arguments.as_json:
            say_json(record)
        else:
            self._console.print(text, soft_wrap=True)

    @contextlib.contextmanager
    def _spark(self) -> Iterator[SparkSession]:
        ensure_java()
        with spark_session("batch reload", tasks=1) as spark:
            yield spark


def _source_options(options: Mapping[str, str]) -> SourceOptions:
    parsed = parse_source_options(options, Query.BATCH)
    return dataclasses.replace(parsed, client=dataclasses.replace(parsed.client, servers_option="--bootstrap-servers"))
