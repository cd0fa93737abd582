// Requests to the broker.

import { query } from "./addresses.js";

const MAX_REPETITIONS = 30; // of a request while the broker is busy
const MAX_PROBLEM = 200; // characters of an error response without a problem

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
export async function ask(view, path, fields = {}, body = null) {
  const options = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: toJson(body) } : {};
  for (let repetition = 0; ; repetition += 1) {
    let response, text, answer;
    try {
      response = await fetch(`api/${path}${query(fields)}`, options);
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
    const problem = new Error(answer?.problem ?? `status ${status}: ${text.slice(0, MAX_PROBLEM).trim() || "without a text"}`);
    problem.status = response.status;
    const seconds = response.status === 503 ? Number(response.headers.get("Retry-After")) : 0;
    if (!seconds || repetition === MAX_REPETITIONS || !view.isCurrent()) throw problem;
    view.report(problem.message);
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    if (!view.isCurrent()) throw problem;
  }
}
