"use strict";
// The broker's status page. All data of the broker is set as text, never as HTML.

const REFRESH_MS = 5000;
const MAX_PARTITIONS = 100; // of a topic, that one search reads
const OVERVIEW_ROWS = 20;
const MAX_DATE_MS = 8.64e15 - 864e5; // of a Date, in every time zone
const MAX_INDENT = 20; // levels of JSON
const MAX_INDENTED = 100000; // characters of JSON that get line breaks
const DRAW_MS = 300; // between two insertions of rows of a running search
const MAX_ROWS = 2000; // of one search over all its partitions; More records adds to a table with fewer rows
const MAX_NOTES = 100; // problems of a search
const MAX_REPETITIONS = 30; // of a request while the broker is busy
const UNKNOWN_LAG =
  "The lag of a partition is unknown if it does not exist, its log is offline, or the committed offset is greater than the high watermark.";
const PREVIEW = 200; // characters of a key or value in a table, and of an error response without a problem

// --- elements ---------------------------------------------------------------------------------------------------------

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

const span = (text, kind) => h("span", { class: kind }, text);
const link = (text, page, fields) => h("a", { href: address(page, fields) }, text);

/** A table. A column is [title, value of a row, class]; a value is text, a number or an element. */
function table(columns, rows, empty) {
  if (!rows.length) return h("p", { class: "none" }, empty);
  const head = h("tr", {}, columns.map(([title, , kind]) => h("th", { scope: "col", class: kind }, title)));
  const body = rows.map((row) => h("tr", {}, columns.map(([, value, kind]) => h("td", { class: kind }, shown(value(row))))));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
}

function shown(value) {
  if (value == null) return span("–", "none");
  return typeof value === "number" || typeof value === "bigint" ? count(value) : value;
}

function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, shown(value)))));
}

/** Give an element the children of `fresh`. Those that it has already stay, with their focus and scroll position. */
function update(element, fresh) {
  const identity = (node) => (node.nodeName === "TR" ? `TR ${node.cells[0].textContent}` : node.nodeName);
  const children = [...fresh.childNodes];
  const identities = new Set(children.map(identity));
  for (const node of [...element.childNodes]) if (!identities.has(identity(node))) node.remove();
  let next = element.firstChild;
  for (const child of children) {
    if (!next || identity(next) !== identity(child)) {
      element.insertBefore(child, next);
      continue;
    }
    const node = next;
    next = node.nextSibling;
    if (!node.cloneNode().isEqualNode(child.cloneNode())) node.replaceWith(child); // text, or other attributes
    else if (!node.isEqualNode(child)) update(node, child);
  }
  while (element.childNodes.length > children.length) element.lastChild.remove();
}

// --- formats ----------------------------------------------------------------------------------------------------------

// Integers are of type number, and above 2^53 of type bigint. Arithmetic with both throws; comparison works.

const count = (number) => number.toLocaleString("en");
const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

function bytes(size) {
  if (size == null) return null;
  let number = Number(size);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) [number, unit] = [number / 1024, unit + 1];
  return `${unit ? number.toFixed(1) : number} ${units[unit]}`;
}

function time(ms) {
  if (ms == null || ms < 0) return null;
  if (ms > MAX_DATE_MS) return String(ms);
  const date = new Date(ms);
  const local = new Date(ms - date.getTimezoneOffset() * 60000).toISOString().replace("T", " ").replace("Z", "");
  return h("time", { datetime: date.toISOString(), title: date.toISOString() }, local);
}

function duration(ms) {
  if (ms < 1000) return `${ms} ms`;
  const seconds = Number(ms) / 1000;
  return seconds < 120 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(0)} min`;
}

const alarm = (number) => (number ? span(count(number), "bad") : "0");

/** The lag of a group or partition. `unknown` is the number of partitions whose lag is unknown. */
function lag(number, unknown) {
  const known = shown(number ? span(count(number), "warn") : number);
  return unknown ? h("span", { title: UNKNOWN_LAG }, known, number == null ? "" : ` + ${count(unknown)} unknown`) : known;
}

// --- requests ---------------------------------------------------------------------------------------------------------

const toJson = (body) => JSON.stringify(body, (_, value) => (typeof value === "bigint" ? String(value) : value));

/** The value of JSON. Integers above 2^53 are of type bigint; browsers whose JSON.parse has no `context` round them. */
function fromJson(text) {
  return JSON.parse(text, (_, value, context) => {
    const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source);
    return isRounded ? BigInt(context.source) : value;
  });
}

/**
 * The response of the broker, which is requested for a view: `view.isCurrent()` is false once it does not need the
 * response. A busy broker has status 503 and Retry-After. The request is then repeated, and `view.report` gets the problem.
 */
async function ask(view, path, fields = {}, body = null) {
  const given = Object.entries(fields).filter(([, value]) => value != null && value !== "");
  const query = new URLSearchParams(given).toString();
  const options = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: toJson(body) } : {};
  for (let repetition = 0; ; repetition += 1) {
    let response, text, answer;
    try {
      response = await fetch(`api/${path}${query ? `?${query}` : ""}`, options);
      text = await response.text();
    } catch {
      throw new Error("the broker does not respond");
    }
    try {
      answer = fromJson(text);
    } catch {
      // The text is not JSON.
    }
    if (response.ok && answer) return answer;
    const status = `${response.status} ${response.statusText}`.trim();
    const problem = new Error(answer?.problem ?? `status ${status}: ${text.slice(0, PREVIEW).trim() || "without a text"}`);
    problem.status = response.status;
    const seconds = response.status === 503 ? Number(response.headers.get("Retry-After")) : 0;
    if (!seconds || repetition === MAX_REPETITIONS || !view.isCurrent()) throw problem;
    view.report(problem.message);
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    if (!view.isCurrent()) throw problem;
  }
}

// --- pages ------------------------------------------------------------------------------------------------------------

function address(page, fields = {}) {
  const given = Object.entries(fields).filter(([, value]) => value != null && value !== "");
  const query = new URLSearchParams(given).toString();
  return `#/${page}${query ? `?${query}` : ""}`;
}

function place() {
  const [page, query] = location.hash.replace(/^#\//, "").split("?");
  return { page: page || "overview", fields: Object.fromEntries(new URLSearchParams(query)) };
}

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

const MESSAGES = [
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
  ["Partitions", (row) => row.committed, "number"],
  ["Lag", (row) => lag(row.lag, row.unknown_lags), "number"],
];

const pages = {
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
        ["Groups", groups || "none"],
        ["Transactional ids", transactions || "none"],
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
      table(MESSAGES, broker.messages, "None since the start."),
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

  async topics(view, fields) {
    const answer = await ask(view, "topics", fields);
    return [
      h("h2", {}, "Topics"),
      filter("topics", fields, "Topics that contain"),
      table(TOPICS, answer.rows, "No topics."),
      pager("topics", fields, "after", answer.next),
      h("p", { class: "muted" }, "Offsets: end offsets minus start offsets. Records and bytes are since the start of the broker."),
    ];
  },

  async topic(view, fields) {
    const topic = await ask(view, "topic", fields);
    const columns = [
      ["Partition", (row) => link(String(row.partition), "records", { topic: topic.name, partition: row.partition }), "number"],
      ["Leader", (row) => (row.leader < 0 ? span("none", "bad") : String(row.leader)), "number"],
      ["Leader epoch", (row) => row.leader_epoch, "number"],
      ["Replicas", (row) => row.replicas.join(", ")],
      ["In sync", (row) => span(row.isr.join(", "), row.isr.length < row.replicas.length ? "bad" : "")],
      ["Start offset", (row) => row.log_start_offset, "number"],
      ["Last stable", (row) => row.last_stable_offset, "number"],
      ["High watermark", (row) => row.high_watermark, "number"],
      ["End offset", (row) => row.log_end_offset, "number"],
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

  async groups(view, fields) {
    const answer = await ask(view, "groups", fields);
    return [
      h("h2", {}, "Groups"),
      filter("groups", fields, "Groups that contain"),
      table(GROUPS, answer.rows, "No groups."),
      pager("groups", fields, "after", answer.next),
      h("p", { class: "muted" }, "Partitions: those with a committed offset. Lag: high watermarks minus committed offsets."),
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

  async transactions(view, fields) {
    const answer = await ask(view, "transactions", fields);
    const columns = [
      ["Transactional id", (row) => row.transactional_id, "id"],
      ["State", (row) => row.state],
      ["Producer id", (row) => String(row.producer_id), "number"],
      ["Epoch", (row) => row.producer_epoch, "number"],
      ["Started", (row) => time(row.started_ms)],
      ["Changed", (row) => time(row.updated_ms)],
      ["Timeout", (row) => duration(row.timeout_ms), "number"],
      ["Partitions", (row) => row.partitions.join(", ") + (row.partition_count > row.partitions.length ? ", ..." : ""), "id"],
    ];
    return [
      h("h2", {}, "Transactions"),
      filter("transactions", fields, "Transactional ids that contain"),
      table(columns, answer.rows, "No transactional ids."),
      pager("transactions", fields, "after", answer.next),
    ];
  },

  async connections(view) {
    const answer = await ask(view, "connections", { limit: 500 });
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

// --- records ----------------------------------------------------------------------------------------------------------

/** JSON with line breaks. Numbers stay as they are written, which JSON.parse would round. Throws if it is not JSON. */
function indented(text) {
  JSON.parse(text);
  const out = [];
  let depth = 0, before = "";
  const line = () => out.push("\n", "  ".repeat(Math.min(depth, MAX_INDENT)));
  for (const token of text.match(/"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const opens = token === "{" || token === "[", closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if (before === "," || (closes ? before !== "{" && before !== "[" : before === "{" || before === "[")) line();
    out.push(token === ":" ? ": " : token);
    if (opens) depth += 1;
    before = token;
  }
  return out.join("");
}

const raw = (data) => (data.text === undefined ? Uint8Array.from(atob(data.base64), (each) => each.charCodeAt(0)) : new TextEncoder().encode(data.text));
const hex = (data) => Array.from(data, (code) => code.toString(16).padStart(2, "0")).join(" ");

/** Bytes as a hex dump: 16 in a line, with their offset and their ASCII characters. */
function dump(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const part = data.subarray(at, at + 16);
    const text = Array.from(part, (code) => (code >= 32 && code < 127 ? String.fromCharCode(code) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex(part).padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

/** Bytes in a format: their text, whether they are only the first part, and if they are no text, the first digits. */
function decoded(data, format) {
  if (data == null) return { text: "null", kind: "none" };
  if (format === "avro" && data.avro) return data.avro.json ? { text: data.avro.json } : { text: data.avro.problem, kind: "bad" };
  const received = raw(data);
  const partial = received.length < data.size;
  if (data.text === undefined || format === "hex") {
    return { text: dump(received), partial, digits: hex(received.subarray(0, PREVIEW)) };
  }
  if (format === "json" && !partial && data.text.length <= MAX_INDENTED) {
    try {
      return { text: indented(data.text) };
    } catch {
      return { text: data.text, kind: "warn" };
    }
  }
  return { text: data.text, partial };
}

function preview(data, format) {
  const { text, kind, digits } = decoded(data, format);
  const line = digits ?? text.replace(/\s+/g, " ");
  return span(line.length > PREVIEW ? `${line.slice(0, PREVIEW)}…` : line, kind);
}

function tags(row) {
  const found = [];
  if (row.control) found.push(span(`marker ${row.control}`, "tag muted"));
  if (row.transaction) found.push(span(row.transaction, `tag ${row.transaction === "committed" ? "muted" : "warn"}`));
  if (row.header_count) found.push(span(`${row.header_count} headers`, "tag muted"));
  return found.flatMap((each) => [each, " "]);
}

class Records {
  constructor(fields, partitions) {
    this.fields = fields;
    this.topic = fields.topic;
    this.partitions = partitions;
    this.search = 0; // the number of the search that may show rows
    this.closed = false;
    this.asked = null; // the values of the form when the search began
    this.chosen = []; // the partitions of the search
    this.next = new Map(); // offsets to continue at, by partition
    this.drawn = 0;
    this.notes = h("div");
    const titles = ["Partition", "Offset", "Time", "Key", "Value", ""];
    const head = h("tr", {}, titles.map((title, index) => h("th", { scope: "col", class: index < 2 ? "number" : null }, title)));
    this.body = h("tbody");
    this.table = h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), this.body));
    this.progress = h("span", { class: "muted", role: "status" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.run(true) }, "More records");
    this.stop = h("button", { type: "button", hidden: true, onclick: () => this.end("Stopped.") }, "Stop");
    this.form = this.makeForm();
    this.clear();
  }

  elements() {
    return [
      h("h2", {}, "Records of ", link(this.topic, "topic", { name: this.topic })),
      this.form,
      h("p", {}, this.more, " ", this.stop, " ", this.progress),
      this.notes,
      this.table,
    ];
  }

  makeForm() {
    const { fields } = this;
    const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);
    const numbers = [...Array(Math.min(this.partitions, MAX_PARTITIONS)).keys()].map(String);
    const all = this.partitions > MAX_PARTITIONS ? `first ${MAX_PARTITIONS}` : "all";
    if (fields.partition && !numbers.includes(fields.partition)) numbers.push(fields.partition);
    const inputs = {
      partition: h("select", { name: "partition" }, option("", all, fields.partition ?? ""), numbers.map((each) => option(each, each, fields.partition))),
      start: h("select", { name: "start" }, [["last", "last offsets"], ["offset", "offset"], ["time", "time"]].map(([value, text]) => option(value, text, fields.start || "last"))),
      offset: h("input", { name: "offset", type: "number", min: 0, value: fields.offset || "0" }),
      time: h("input", { name: "time", type: "datetime-local", step: 1, value: fields.time || "" }),
      key: h("input", { name: "key", value: fields.key || "" }),
      limit: h("input", { name: "limit", type: "number", min: 1, max: 200, value: fields.limit || "50" }),
      format: h("select", { name: "format" }, [["text", "text"], ["json", "JSON"], ["avro", "Avro"], ["hex", "hex"]].map(([value, text]) => option(value, text, fields.format || "text"))),
      schema: h("textarea", { name: "schema", spellcheck: "false", placeholder: '{"type": "record", "name": "Event", "fields": [...]}' }, sessionStorage.getItem("schema") || ""),
      framed: h("input", { name: "framed", type: "checkbox", checked: fields.framed === "true" }),
    };
    this.inputs = inputs;
    const labels = {
      offset: h("label", {}, "Offset", inputs.offset),
      time: h("label", {}, "Time", inputs.time),
      schema: h("label", { class: "wide" }, "Avro schema of the values", inputs.schema),
      framed: h("label", { class: "check" }, inputs.framed, "Confluent's wire format"),
    };
    const update = () => {
      labels.offset.hidden = inputs.start.value !== "offset";
      labels.time.hidden = inputs.start.value !== "time";
      labels.schema.hidden = labels.framed.hidden = inputs.format.value !== "avro";
    };
    update();
    const submit = (event) => {
      event.preventDefault();
      const { schema, framed, ...given } = this.values();
      sessionStorage.setItem("schema", schema);
      const hash = address("records", { topic: this.topic, ...given, framed: framed || null });
      if (location.hash === hash) this.run(false);
      else location.hash = hash;
    };
    return h("form", { onsubmit: submit, onchange: update },
      h("label", {}, "Partition", inputs.partition), h("label", {}, "Start at", inputs.start), labels.offset, labels.time,
      h("label", {}, "Key is", inputs.key), h("label", {}, "Records per partition", inputs.limit), h("label", {}, "Values as", inputs.format),
      labels.framed, h("button", {}, "Search"), labels.schema);
  }

  values() {
    const valueOf = (input) => (input.type === "checkbox" ? input.checked : input.value);
    return Object.fromEntries(Object.entries(this.inputs).map(([name, input]) => [name, valueOf(input)]));
  }

  /** The fields that every request has. */
  common(partition) {
    const { format, schema, framed } = this.asked;
    const request = { topic: this.topic, partition };
    if (format === "avro" && schema.trim()) {
      request.avro_schema = schema;
      request.avro_framing = framed ? "confluent" : "none";
    }
    return request;
  }

  request(partition, limit) {
    const { start, offset, time: from, key } = this.asked;
    const request = { ...this.common(partition), limit };
    if (key !== "") request.key = key;
    if (this.next.has(partition)) request.offset = this.next.get(partition);
    else if (start === "offset") request.offset = offset;
    else if (start === "time" && from) request.timestamp = new Date(from).getTime();
    else if (key === "") request.last = limit;
    return request;
  }

  /** Search, or continue the last search. A search by key reads on until it has found enough or is stopped. */
  async run(continues) {
    if (this.closed) return; // a click while the next page is requested
    const search = ++this.search;
    const view = { isCurrent: () => search === this.search, report: (text) => (this.progress.textContent = text) };
    if (!continues) {
      this.asked = this.values();
      this.chosen = this.asked.partition === "" ? [...Array(Math.min(this.partitions, MAX_PARTITIONS)).keys()] : [this.asked.partition];
      this.next.clear();
    }
    if (!continues || this.rows.length >= MAX_ROWS) this.clear();
    this.more.hidden = true;
    this.stop.hidden = false;
    this.progress.className = "muted";
    view.report("");
    const requested = Number(this.asked.limit) || 50;
    const limit = Math.min(requested, Math.floor(MAX_ROWS / this.chosen.length));
    let isOpen = false, isLimited = false;
    try {
      for (const partition of this.chosen) {
        try {
          const { wanted, isEnd } = await this.read(view, partition, limit);
          if (!view.isCurrent()) return;
          isOpen ||= !isEnd;
          isLimited ||= limit < requested && wanted <= 0;
        } catch (error) {
          if (!view.isCurrent()) return;
          if (this.chosen.length === 1 || !(error.status >= 409)) throw error;
          this.note(`Partition ${partition}: ${error.message}`);
          isOpen = true;
        }
      }
      const limited = ` These are at most ${limit} of each partition, because the page shows ${count(MAX_ROWS)}: choose a partition for more.`;
      this.end(`${count(this.rows.length)} records.${isOpen ? "" : " The end is reached."}${isLimited ? limited : ""}`);
    } catch (error) {
      if (!view.isCurrent()) return;
      this.end(error.message);
      this.progress.className = "bad";
    }
  }

  /** Read a partition until enough records are found, or its end. `wanted` is how many were not found. */
  async read(view, partition, limit) {
    for (let wanted = limit; ; ) {
      const page = await ask(view, "records", {}, this.request(partition, wanted));
      if (!view.isCurrent()) return {};
      for (const row of page.rows) this.add({ partition, ...row });
      wanted -= page.rows.length;
      this.next.set(partition, page.next_offset);
      for (const problem of page.problems) this.note(`Partition ${partition}: ${problem}`);
      view.report(`Partition ${partition}: read up to offset ${count(page.next_offset)} of ${count(page.high_watermark)}`);
      if (Date.now() - this.drawn > DRAW_MS) this.show();
      const isEnd = page.next_offset >= page.high_watermark;
      if (isEnd || wanted <= 0 || page.next_offset <= page.offset) return { wanted, isEnd };
    }
  }

  close() {
    this.end("");
    this.closed = true;
  }

  end(text) {
    this.search += 1;
    this.show();
    this.stop.hidden = true;
    this.more.hidden = false;
    this.more.textContent = this.rows.length < MAX_ROWS ? "More records" : "Next records, in place of these";
    this.progress.textContent = text;
  }

  clear() {
    this.rows = []; // each with its line of the table
    this.noted = new Set();
    this.drawn = 0;
    this.notes.replaceChildren();
    this.body.replaceChildren();
    this.table.hidden = true;
  }

  note(problem) {
    if (this.noted.size > MAX_NOTES || this.noted.has(problem)) return;
    this.noted.add(problem);
    const isLast = this.noted.size > MAX_NOTES;
    this.notes.append(h("p", { class: "warn" }, isLast ? "There are more problems: start at a later offset to see them." : problem));
  }

  add(row) {
    const { partition, offset, timestamp } = row;
    this.rows.push({ partition, offset, timestamp, line: this.line(row, this.asked.format) });
  }

  /** Insert the lines that the table does not have. The other ones stay in the page, with their details. */
  show() {
    this.drawn = Date.now();
    this.table.hidden = !this.rows.length;
    if (this.chosen.length > 1) {
      this.rows.sort((one, other) => compare(one.timestamp, other.timestamp) || one.partition - other.partition || compare(one.offset, other.offset));
    }
    let next = null;
    for (let index = this.rows.length - 1; index >= 0; index -= 1) {
      const { line } = this.rows[index];
      if (!line.parentNode) this.body.insertBefore(line, next);
      next = line;
    }
  }

  line(row, format) {
    const line = h("tr", {},
      h("td", { class: "number" }, String(row.partition)),
      h("td", { class: "number" }, h("button", { class: "link", type: "button", onclick: () => this.toggle(row, line) }, count(row.offset))),
      h("td", {}, shown(time(row.timestamp))),
      h("td", { class: "data" }, row.control ? "" : preview(row.key, "text")),
      h("td", { class: "data" }, row.control ? "" : preview(row.value, format)),
      h("td", {}, tags(row)));
    return line;
  }

  async toggle(row, line) {
    if (line.nextSibling?.className === "detail") {
      line.nextSibling.remove();
      return;
    }
    const cell = h("td", { colspan: 6 }, "Reading ...");
    line.after(h("tr", { class: "detail" }, cell));
    const view = { isCurrent: () => cell.isConnected, report: (problem) => cell.replaceChildren(problem) };
    try {
      const request = { ...this.common(row.partition), limit: 1, offset: row.offset, bytes: 1048576 };
      const { rows, problems } = await ask(view, "records", {}, request);
      const same = rows.find((each) => each.offset === row.offset);
      cell.replaceChildren(...(same ? this.detail(same) : ["The record is no longer there. ", ...problems]));
    } catch (error) {
      cell.replaceChildren(span(error.message, "bad"));
    }
  }

  detail(row) {
    const block = (title, data, format) => {
      const { text, kind, partial } = decoded(data, format);
      const size = data == null ? "" : `, ${bytes(data.size)}${partial ? ", the first part" : ""}`;
      return [h("h3", {}, title + size), h("pre", { class: kind }, text)];
    };
    const headers = row.headers.map((each) => [preview(each.key, "text"), preview(each.value, "text")]);
    const { batch, producer } = row;
    return [
      ...block("Key", row.key, "text"),
      ...block("Value", row.value, this.asked.format),
      h("h3", {}, row.header_count > headers.length ? `Headers, the first ${headers.length} of ${count(row.header_count)}` : "Headers"),
      h("p", { class: "bad" }, row.header_problem ?? ""),
      table([["Name", ([name]) => name, "data"], ["Value", ([, value]) => value, "data"]], headers, "None."),
      h("p", { class: "muted" },
        `${row.timestamp_type} ${row.timestamp}. Batch at offset ${batch.base_offset}: ${bytes(batch.size_bytes)}, `,
        `compression ${batch.compression}, format v${batch.magic}, leader epoch ${batch.leader_epoch}.`,
        producer ? ` Producer ${producer.id}, epoch ${producer.epoch}.` : ""),
    ];
  }
}

// --- the page ---------------------------------------------------------------------------------------------------------

let drawing = 0;
let shownHash = null; // the address of the shown page
let shownRecords = null; // the search of the page

function report(problem, text = `Updated ${new Date().toLocaleTimeString()}`) {
  const state = document.getElementById("state");
  state.className = problem ? "failed" : "";
  state.textContent = problem || text;
}

async function draw() {
  const number = ++drawing, { hash } = location;
  const view = { isCurrent: () => number === drawing, report };
  shownRecords?.close();
  shownRecords = null;
  const { page, fields } = place();
  for (const each of document.querySelectorAll("nav a")) {
    if (each.getAttribute("href") === `#/${page}`) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  const main = document.getElementById("main");
  try {
    let content, records = null;
    if (page === "records") {
      const topic = await ask(view, "topic", { name: fields.topic, limit: 1 });
      records = new Records(fields, topic.partitions);
      content = records.elements();
    } else if (Object.hasOwn(pages, page)) {
      content = await pages[page](view, fields);
    } else {
      throw new Error(`there is no page ${page}`);
    }
    if (!view.isCurrent()) return;
    if (hash === shownHash && !records) update(main, h("main", { id: "main" }, content));
    else main.replaceChildren(...content);
    shownHash = hash;
    document.title = `Broker status: ${page}`;
    report("");
    shownRecords = records;
    records?.run(false);
  } catch (error) {
    if (!view.isCurrent()) return;
    main.replaceChildren(h("p", { class: "bad" }, error.message));
    report(error.message);
  }
}

async function refresh() {
  if (!document.hidden && place().page !== "records") {
    if (getSelection().isCollapsed) await draw();
    else report("", "Not updated while text is selected");
  }
  setTimeout(refresh, REFRESH_MS);
}

window.addEventListener("hashchange", draw);
draw().then(() => setTimeout(refresh, REFRESH_MS));
ask({ isCurrent: () => true, report() {} }, "broker").then((broker) => { document.getElementById("node").textContent = broker.node_id; }, () => {});
