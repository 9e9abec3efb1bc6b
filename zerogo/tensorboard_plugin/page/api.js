// Questions to the server, and small helpers for the page's elements.

async function answer(response) {
  const reply = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok || reply.error) throw new Error(reply.error);
  return reply;
}

export async function get(route, fields = {}) {
  const query = Object.entries(fields).filter(([, value]) => value !== "" && value != null);
  return answer(await fetch(`${route}?${new URLSearchParams(query)}`));
}

const json = (body, signal) => ({
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
});

export async function post(route, body) {
  return answer(await fetch(route, json(body)));
}

// Who asks: a later request of the same name ends the earlier one on the server, too.
const CLIENT = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16)).join("");

// Calls each(part) with each part of an answer that comes in lines, until it ends or `signal` aborts it.
export async function stream(route, body, each, signal, purpose = route) {
  const response = await fetch(route, json({ ...body, client: `${CLIENT}-${purpose}` }, signal));
  if (!response.ok) await answer(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const part = JSON.parse(line);
      if (part.error && part.network === undefined) throw new Error(part.error);
      if (!signal?.aborted) each(part);
    }
  }
}

// An element with attributes (functions become listeners, `true` a bare attribute) and children, texts as texts.
export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat(9).filter((child) => child != null && child !== false));
  return element;
}

// A table with a row of titles; rows: elements.
export const table = (titles, rows) => h("div", { class: "wide" }, h("table", {},
  h("thead", {}, h("tr", {}, titles.map((title) => h("th", {}, title)))), h("tbody", {}, rows)));

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
export const lead = (score) => (Math.abs(score) < 0.05 ? "even" : `${score > 0 ? "B" : "W"}+${Math.abs(score).toFixed(1)}`);
export const short = (count) => (count < 1000 ? `${count}` : `${(count / 1000).toPrecision(2)}k`);
export const vertex = (action, size, columns) =>
  action === size * size ? "pass" : `${columns[action % size]}${size - Math.floor(action / size)}`;
