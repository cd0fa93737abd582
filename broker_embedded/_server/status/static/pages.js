// The pages, apart from the one for records. Each returns elements, from responses of the broker.

import { address, link } from "./addresses.js";
import { count, facts, h, span, table } from "./elements.js";
import { alarm, bytes, duration, lag, time } from "./formats.js";
import { ask } from "./requests.js";

const OVERVIEW_ROWS = 20;

/** The links to the first and the next rows of a list. */
function pager(page, fields, name, next) {
  const links = [];
  if (fields[name]) links.push(link("First rows", page, { ...fields, [name]: null }));
  if (next != null) links.push(link("Next rows", page, { ...fields, [name]: next }));
  return h("p", {}, links.flatMap((each) => [each, " "]));
}

function filter(page, fields, title) {
  const input = h("input", { type: "search", value: fields.contains || "" });
  const use = (event) => {
    event.preventDefault();
    location.hash = address(page, { contains: input.value });
  };
  return h("form", { onsubmit: use }, h("label", {}, title, input), h("button", {}, "Filter"));
}

const WARNINGS = [
  ["Time", (row) => time(row.time_ms)],
  ["Level", (row) => span(row.level, row.level === "WARNING" ? "warn" : "bad")],
  ["Message", (row) => row.text, "data"],
];

const TOPICS = [
  ["Topic", (row) => link(row.name, "topic", { name: row.name }), "id"],
  ["Partitions", (row) => row.partitions, "number"],
  ["Replicas", (row) => row.replication_factor, "number"],
  ["Under-replicated", (row) => alarm(row.under_replicated), "number"],
  ["Without leader", (row) => alarm(row.without_leader), "number"],
  ["Size", (row) => bytes(row.size_bytes), "number"],
  ["Offsets", (row) => row.offsets, "number"],
  ["Records in", (row) => row.messages_in, "number"],
  ["Bytes in", (row) => bytes(row.bytes_in), "number"],
  ["Bytes out", (row) => bytes(row.bytes_out), "number"],
];

const GROUPS = [
  ["Group", (row) => link(row.group_id, "group", { id: row.group_id }), "id"],
  ["Type", (row) => row.type],
  ["Protocol", (row) => row.protocol_type],
  ["State", (row) => row.state],
  ["Members", (row) => row.members, "number"],
  ["Partitions", (row) => row.committed_partitions, "number"],
  ["Lag", (row) => lag(row.lag, row.unknown_lags), "number"],
];

const TRANSACTIONS = [
  ["Transactional id", (row) => row.transactional_id, "id"],
  ["State", (row) => row.state],
  ["Producer id", (row) => String(row.producer_id), "number"],
  ["Epoch", (row) => row.producer_epoch, "number"],
  ["Started", (row) => time(row.started_ms)],
  ["Changed", (row) => time(row.updated_ms)],
  ["Timeout", (row) => duration(row.timeout_ms), "number"],
  ["Partitions", (row) => row.partitions.join(", ") + (row.partition_count > row.partitions.length ? ", ..." : ""), "id"],
];

/** A page of rows by name. */
async function list(view, path, fields, title, columns, note) {
  const answer = await ask(view, path, fields);
  return [
    h("h2", {}, title),
    filter(path, fields, `${title} that contain`),
    table(columns, answer.rows, "None."),
    pager(path, fields, "after", answer.next),
    h("p", { class: "muted" }, note),
  ];
}

const OFFSETS_NOTE = "Offsets: high watermarks minus log start offsets. Records and bytes are since the start of the broker.";
const LAG_NOTE = "Partitions: those with a committed offset. Lag: high watermarks minus committed offsets.";

export const pages = {
  topics: (view, fields) => list(view, "topics", fields, "Topics", TOPICS, OFFSETS_NOTE),
  groups: (view, fields) => list(view, "groups", fields, "Groups", GROUPS, LAG_NOTE),
  transactions: (view, fields) => list(view, "transactions", fields, "Transactional ids", TRANSACTIONS, ""),

  async overview(view) {
    const broker = await ask(view, "broker");
    const topics = await ask(view, "topics", { limit: OVERVIEW_ROWS });
    const groupRows = await ask(view, "groups", { limit: OVERVIEW_ROWS });
    const groups = broker.groups.map((each) => `${each.count} ${each.state}`).join(", ");
    const transactions = broker.transactions.map((each) => `${each.count} ${each.state}`).join(", ");
    return [
      facts([
        ["Node", `${broker.node_id}`],
        ["Cluster id", broker.cluster_id],
        ["Addresses", broker.addresses.join(", ")],
        ["Version", `${broker.version}, as Apache Kafka ${broker.as_version}`],
        ["Data directory", broker.data_dir],
        ["Topics", link(count(broker.topics), "topics")],
        ["Partitions", broker.partitions],
        ["Offline logs", alarm(broker.offline_logs)],
        ["Groups", link(groups || "none", "groups")],
        ["Transactional ids", link(transactions || "none", "transactions")],
        ["Connections", link(count(broker.connections.open), "connections")],
        ["Refused connections", alarm(broker.connections.refused)],
      ]),
      h("h2", {}, "Topics"),
      table(TOPICS, topics.rows, "No topics."),
      h("p", {}, topics.next ? link("All topics", "topics") : ""),
      h("h2", {}, "Groups"),
      table(GROUPS, groupRows.rows, "No groups."),
      h("p", {}, groupRows.next ? link("All groups", "groups") : ""),
      h("h2", {}, "Recent warnings and errors"),
      table(WARNINGS, broker.warnings, "None since the start."),
    ];
  },

  async requests(view) {
    const { requests, delayed_requests: delayed } = await ask(view, "broker");
    const columns = [
      ["API", (row) => row.api],
      ["Requests", (row) => row.requests, "number"],
      ["Bytes in", (row) => bytes(row.bytes_in), "number"],
      ["Bytes out", (row) => bytes(row.bytes_out), "number"],
      ["Median, ms", (row) => row.p50_ms.toFixed(2), "number"],
      ["99 %, ms", (row) => row.p99_ms.toFixed(2), "number"],
      ["Errors in responses", (row) => Object.entries(row.errors).map(([code, n]) => `${code} ${count(n)}`).join(", ")],
    ];
    return [
      h("h2", {}, "Requests since the start"),
      h("p", { class: "muted" }, `Times include waits, such as those of Fetch for records. ${count(delayed)} requests wait now.`),
      table(columns, requests, "None."),
    ];
  },

  async topic(view, fields) {
    const topic = await ask(view, "topic", fields);
    const columns = [
      ["Partition", (row) => link(String(row.partition), "records", { topic: topic.name, partition: row.partition }), "number"],
      ["Leader", (row) => (row.leader < 0 ? span("none", "bad") : String(row.leader)), "number"],
      ["Leader epoch", (row) => row.leader_epoch, "number"],
      ["Replicas", (row) => row.replicas.join(", ")],
      ["In-sync replicas", (row) => span(row.isr.join(", "), row.isr.length < row.replicas.length ? "bad" : "")],
      ["Log start offset", (row) => row.log_start_offset, "number"],
      ["Last stable offset", (row) => row.last_stable_offset, "number"],
      ["High watermark", (row) => row.high_watermark, "number"],
      ["Log end offset", (row) => row.log_end_offset, "number"],
      ["Size", (row) => bytes(row.size_bytes), "number"],
      ["Segments", (row) => row.segments, "number"],
      ["Open transactions", (row) => (row.offline ? span(row.offline, "bad") : row.open_transactions), "number"],
    ];
    const settings = Object.entries(topic.configs);
    return [
      h("h2", {}, `Topic ${topic.name}`),
      h("p", {}, link("Browse records", "records", { topic: topic.name }), ` · topic id ${topic.topic_id}`),
      table(columns, topic.rows, "No partitions."),
      pager("topic", fields, "from", topic.next),
      h("h3", {}, "Settings of the topic"),
      table([["Setting", ([name]) => name], ["Value", ([, value]) => value]], settings, "All settings have their defaults."),
    ];
  },

  async group(view, fields) {
    const group = await ask(view, "group", fields);
    const offsets = [
      ["Topic", (row) => link(row.topic, "topic", { name: row.topic }), "id"],
      ["Partition", (row) => row.partition, "number"],
      ["Committed", (row) => row.committed_offset, "number"],
      ["High watermark", (row) => row.high_watermark, "number"],
      ["Lag", (row) => lag(row.lag, row.lag == null ? 1 : 0), "number"],
      ["Committed at", (row) => time(row.committed_ms)],
      ["Metadata", (row) => row.metadata, "id"],
    ];
    const members = [
      ["Member", (row) => row.member_id, "id"],
      ["Instance", (row) => row.instance_id, "id"],
      ["Client id", (row) => row.client_id, "id"],
      ["Host", (row) => row.client_host],
      ["Assigned", (row) => row.partitions.join(", "), "id"],
    ];
    return [
      h("h2", {}, `Group ${group.group_id}`),
      h("p", {}, `${group.type}, ${group.state}, ${count(group.members)} members`),
      h("h3", {}, "Committed offsets"),
      table(offsets, group.rows, "None."),
      pager("group", fields, "from", group.next),
      h("h3", {}, "Members"),
      table(members, group.member_rows, "None."),
    ];
  },

  async connections(view) {
    const answer = await ask(view, "connections");
    const columns = [
      ["Client", (row) => row.peer],
      ["Listener", (row) => row.listener],
      ["User", (row) => row.user, "id"],
      ["Client id", (row) => row.client_id, "id"],
      ["Software", (row) => `${row.software_name} ${row.software_version}`, "id"],
      ["Idle", (row) => duration(row.idle_ms), "number"],
    ];
    const more = answer.count > answer.rows.length ? `The first ${answer.rows.length} of ${count(answer.count)}.` : "";
    return [h("h2", {}, "Connections"), table(columns, answer.rows, "None."), h("p", {}, more)];
  },
};
