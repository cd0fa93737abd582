// The page for records: its form, its searches and its table.

import { address, link } from "./addresses.js";
import { content, count, h, span, table } from "./elements.js";
import { bytes, compare, time } from "./formats.js";
import { decoded, preview } from "./record_data.js";
import { ask } from "./requests.js";

const MAX_PARTITIONS = 100; // of a topic, that one search reads
const DRAW_MS = 300; // between two insertions of rows of a running search
const MAX_ROWS = 2000; // of one search over all its partitions; More records adds to a table with fewer rows
const MAX_NOTES = 100; // problems of a search
const DEFAULT_LIMIT = 50; // records of a partition

function tags(row) {
  const found = [];
  if (row.control) found.push(span(`marker ${row.control}`, "tag muted"));
  if (row.transaction) found.push(span(row.transaction, `tag ${row.transaction === "committed" ? "muted" : "warn"}`));
  if (row.header_count) found.push(span(`${row.header_count} headers`, "tag muted"));
  return found.flatMap((each) => [each, " "]);
}

export class Records {
  constructor(fields, partitions) {
    this.fields = fields;
    this.topic = fields.topic;
    this.partitions = partitions;
    this.search = 0; // the number of the search that may show rows
    this.closed = false;
    this.asked = null; // the values of the form when the search began
    this.chosen = []; // the partitions of the search
    this.next = new Map(); // offsets to continue at, by partition
    this.maxBytes = null; // the most bytes of a key or value in a response
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
      limit: h("input", { name: "limit", type: "number", min: 1, value: fields.limit || DEFAULT_LIMIT }),
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
    const requested = Number(this.asked.limit) || DEFAULT_LIMIT;
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
      this.maxBytes = page.max_bytes;
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
    this.more.textContent = this.rows.length < MAX_ROWS ? "More records" : "Next records (replaces these)";
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
      h("td", {}, content(time(row.timestamp))),
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
      const request = { ...this.common(row.partition), limit: 1, offset: row.offset, bytes: this.maxBytes };
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
