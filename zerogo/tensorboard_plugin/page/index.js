// The tab: TensorBoard imports this module into a frame of its own and calls render().

import { get, h } from "./api.js";
import { Games } from "./games.js";
import { Play } from "./play.js";
import { Run } from "./run.js";
import { Think } from "./think.js";
import { Viewer } from "./viewer.js";

const KEYS = "←→ step · ↑↓ variation · Home End Page · A analyse · P pass · M type a move · J K next game · Delete variation";
const TABS = { games: "Games", play: "Play", run: "Run" };

// TensorBoard's dark mode is a class of its own page, which is of the same origin; alone, the system's choice counts.
function followTheme() {
  const outer = window.parent !== window ? window.parent.document.body : null;
  const apply = () => {
    const dark = outer ? outer.classList.contains("dark-mode") : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  };
  if (outer) new MutationObserver(apply).observe(outer, { attributes: true, attributeFilter: ["class"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}

export async function render() {
  document.documentElement.lang = "en";
  document.head.append(h("link", { rel: "stylesheet", href: "style.css" }), h("title", {}, "Go"),
    h("link", { rel: "icon", href: "data:," }),
    h("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }));
  followTheme();
  const message = h("p", { class: "message", role: "status", hidden: true });
  let timer;
  const say = (text) => {
    message.textContent = text;
    message.hidden = false;
    clearTimeout(timer);
    timer = setTimeout(() => { message.hidden = true; }, 8000);
  };
  const costs = h("span", { class: "cost", title: "CPU time and memory of the tab's own process, which runs at low priority with one thread" }, "idle");
  let spent = null;
  const cost = (part) => {
    if (part?.cpu == null) { costs.textContent = spent ? `idle; last ${spent}` : "idle"; costs.classList.remove("busy"); return; }
    spent = `${part.cpu.toFixed(1)} s of one core in ${part.seconds.toFixed(1)} s, ${Math.round(part.memory / 2 ** 20)} MB`;
    costs.textContent = `thinking: ${spent}`;
    costs.classList.add("busy");
  };
  let think, play;
  const onchange = () => { play?.draw(); if (play?.overlay()) think?.quiet(); else think?.again(); };
  const viewer = new Viewer({ say, onchange, onplay: (action) => play?.play(action), owns: (game) => play?.owns(game) });
  think = new Think({ viewer, say, cost });
  const games = new Games({ viewer, say, onopen: (game) => { if (game) think.prefer(game.run); } });
  play = new Play({ viewer, say, cost, think, onstart: () => think.again(), onback: () => show("play") });
  const status = new Run({ say, onmatch: (run, player, opponent) => { show("games"); games.set({ run, kind: "match", player: `${player} ${opponent}` }); } });
  const tabs = Object.fromEntries(Object.entries(TABS).map(([name, text]) => [name, h("button", { role: "tab", onclick: () => show(name) }, text)]));
  const main = h("main", {}, games.element, play.element, viewer.element, think.element, status.element);
  document.body.replaceChildren(h("header", {}, h("div", { role: "tablist", class: "row" }, Object.values(tabs)), costs), message, main,
    h("footer", { class: "soft" }, KEYS));

  function show(name) {
    for (const [one, button] of Object.entries(tabs)) button.setAttribute("aria-selected", one === name);
    main.className = `tab-${name}`;
    if (name === "run") status.load();
  }
  async function look(first) { // first: the first call, which also starts the analysis process
    const { runs } = await get("runs", { first });
    think.list(runs);
    play.list(runs);
    games.runs(runs);
    status.runs(runs);
    const notes = runs.filter((run) => run.note).map((run) => `${run.name}: ${run.note}`);
    if (first && notes.length) say(notes.join("; "));
    return runs;
  }
  document.addEventListener("keydown", (event) => {
    const { target } = event;
    if (event.ctrlKey || event.altKey || event.metaKey || main.className === "tab-run") return;
    if (target.matches("input:not([type=checkbox]), select, textarea")) return;
    if (event.key === "a") think.toggle();
    else if (event.key === "j") games.neighbour(1);
    else if (event.key === "k") games.neighbour(-1);
    else viewer.key(event);
  });
  show("games");
  viewer.element.focus({ preventScroll: true }); // so that keys reach the frame
  try {
    await look(1);
    await games.reload();
    if (games.rows.length) await games.open(games.rows[0].game);
    else {
      viewer.show(await (await import("./api.js")).post("new", { size: 9 }));
      say("There are no games in the log directory yet; a run keeps some of its games as it goes.");
    }
    if (play.restore()) show("play");
  } catch (error) { say(error.message); }
  setInterval(() => look().catch(() => {}), 30000);
}
