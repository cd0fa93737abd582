// Elements of the page. All data of the broker is set as text, never as HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

export const span = (text, kind) => h("span", { class: kind }, text);

/** A table. A column is [title, value of a row, class]; a value is text, a number or an element. */
export function table(columns, rows, empty) {
  if (!rows.length) return h("p", { class: "none" }, empty);
  const head = h("tr", {}, columns.map(([title, , kind]) => h("th", { scope: "col", class: kind }, title)));
  const body = rows.map((row) => h("tr", {}, columns.map(([, value, kind]) => h("td", { class: kind }, content(value(row))))));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
}

export const count = (number) => number.toLocaleString("en");

/** The text or element of a value; a dash if there is none. */
export function content(value) {
  if (value == null) return span("–", "none");
  return typeof value === "number" || typeof value === "bigint" ? count(value) : value;
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, content(value)))));
}

/** Give an element the children of `fresh`. Those that it has already stay, with their focus and scroll position. */
export function update(element, fresh) {
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
