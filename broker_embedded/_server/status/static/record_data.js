// Keys and values of records as text, JSON, Avro and hex.

import { span } from "./elements.js";

const MAX_INDENT = 20; // levels of JSON
const MAX_INDENTED = 100000; // characters of JSON that get line breaks
const PREVIEW = 200; // characters of a key or value in a table

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
export function decoded(data, format) {
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

export function preview(data, format) {
  const { text, kind, digits, partial } = decoded(data, format);
  const line = digits ?? text.replace(/\s+/g, " ");
  return span(partial || line.length > PREVIEW ? `${line.slice(0, PREVIEW)}…` : line, kind);
}
