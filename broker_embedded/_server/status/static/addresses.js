// Addresses of the pages, and their fields.

import { h } from "./elements.js";

/** The query string of fields, without those that are null or empty. */
export function query(fields) {
  const given = Object.entries(fields).filter(([, value]) => value != null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export function address(page, fields = {}) {
  return `#/${page}${query(fields)}`;
}

export function place() {
  const [page, query] = location.hash.replace(/^#\//, "").split("?");
  return { page: page || "overview", fields: Object.fromEntries(new URLSearchParams(query)) };
}

export const link = (text, page, fields) => h("a", { href: address(page, fields) }, text);
