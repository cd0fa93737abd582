// Values as text and elements.
// Integers are of type number, and above 2^53 of type bigint. Arithmetic with both throws; comparison works.

import { content, count, h, span } from "./elements.js";

const MAX_DATE_MS = 8.64e15 - 864e5; // of a Date, in every time zone
const UNKNOWN_LAG =
  "The lag is unknown if the partition does not exist, its log is offline, or the committed offset is greater than the high watermark.";

export const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

export function bytes(size) {
  if (size == null) return null;
  let number = Number(size);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) [number, unit] = [number / 1024, unit + 1];
  return `${unit ? number.toFixed(1) : number} ${units[unit]}`;
}

export function time(ms) {
  if (ms == null || ms < 0) return null;
  if (ms > MAX_DATE_MS) return String(ms);
  const date = new Date(ms);
  const local = new Date(ms - date.getTimezoneOffset() * 60000).toISOString().replace("T", " ").replace("Z", "");
  return h("time", { datetime: date.toISOString(), title: date.toISOString() }, local);
}

export function duration(ms) {
  if (ms < 1000) return `${ms} ms`;
  const seconds = Number(ms) / 1000;
  return seconds < 120 ? `${seconds.toFixed(0)} s` : `${(seconds / 60).toFixed(0)} min`;
}

export const alarm = (number) => (number ? span(count(number), "bad") : "0");

/** The lag of a group or partition. `unknown` is the number of partitions whose lag is unknown. */
export function lag(number, unknown) {
  const known = content(number ? span(count(number), "warn") : number);
  return unknown ? h("span", { title: UNKNOWN_LAG }, known, number == null ? "" : ` + ${count(unknown)} unknown`) : known;
}
