// The broker's status page: shows the page of the address, and updates it.

import { place } from "./addresses.js";
import { h, update } from "./elements.js";
import { pages } from "./pages.js";
import { Records } from "./records.js";
import { ask } from "./requests.js";

const REFRESH_MS = 5000;

let drawing = 0;
let shownHash = null; // the address of the shown page
let shownRecords = null; // the search of the page

function report(problem, text = `Updated ${new Date().toTimeString().slice(0, 8)}`) {
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
