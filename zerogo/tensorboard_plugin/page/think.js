// What networks think of the position that is shown.

import { planeOf, winrateText } from "./board.js";
import { stepChart } from "./chart.js";
import { h, lead, percent, stream, table, vertex } from "./api.js";

const VIEWS = ["candidates", "policy", "ownership", "board only"];

export class Think {
  constructor({ viewer, say, cost }) {
    Object.assign(this, { viewer, say, cost });
    const again = () => this.again();
    this.networks = [0, 1].map((place) => h("select", { onchange: again, "aria-label": `network ${place + 1}` }));
    this.visits = h("input", { type: "number", min: 0, max: 10000, step: 100, value: 200, onchange: again, "aria-label": "visits" });
    this.view = h("select", { onchange: () => this.draw(), "aria-label": "what is drawn" }, VIEWS.map((name) => h("option", {}, name)));
    this.on = h("input", { type: "checkbox", onchange: again, id: "think-on" });
    this.device = h("input", { type: "checkbox", onchange: again, id: "think-device" });
    this.words = h("div", { class: "words", "aria-live": "polite" });
    this.result = h("div", { class: "result" });
    const button = (text, act) => h("button", { onclick: act }, text);
    this.element = h("section", { class: "think" },
      h("div", { class: "row" }, this.on, h("label", { for: "think-on" }, "Analyse (A)"), this.view),
      h("div", { class: "row" }, this.networks[0]), h("div", { class: "row" }, this.networks[1]),
      h("label", { class: "row" }, "visits ", this.visits),
      h("label", { class: "row", for: "think-device" }, this.device, "use the GPU, if there is one (a run on it has to wait)"),
      h("div", { class: "row" }, button("Over time", () => this.overTime()), button("Curve of this game", () => this.curve()),
        button("Planes", () => this.planes()), button("Stop", () => this.stop())),
      this.words, this.result);
  }

  // runs: of the server. Keeps what was chosen where it is still there.
  list(runs) {
    this.runs = runs;
    this.networks.forEach((select, place) => {
      const before = select.value;
      const groups = runs.filter((run) => run.networks.length).map((run) => h("optgroup", { label: run.name },
        run.networks.toReversed().map(([name, step]) => h("option", { value: name }, `${run.name === "." ? "" : `${run.name} `}${step < 0 ? name.split("/").pop() : `step ${step}`}`))));
      select.replaceChildren(...(place ? [h("option", { value: "" }, "no second network")] : []), ...groups);
      if ([...select.options].some((option) => option.value === before)) select.value = before;
    });
  }

  // Chooses the newest network of a run that a game belongs to.
  prefer(name) {
    const run = this.runs?.find((one) => one.name === name && one.networks.length);
    const inRun = run?.networks.some(([network]) => network === this.networks[0].value);
    if (run && !inRun) this.networks[0].value = run.networks.at(-1)[0];
  }
  toggle() { this.on.click(); }
  stop() {
    this.abort?.abort();
    this.on.checked = false;
    this.cost(null);
  }

  // One stream at a time: a new one ends the old one, here and on the server.
  async run(route, body, each) {
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    try {
      await stream(route, body, (part) => { if (part.cpu != null) this.cost(part); each(part); }, abort.signal, "think");
    } catch (error) {
      if (error.name !== "AbortError" && !abort.signal.aborted) this.words.textContent = error.message;
    }
    if (this.abort === abort) { this.abort = null; this.cost(null); }
  }
  quiet() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.seen = [];
    this.words.replaceChildren();
  }
  again() {
    this.quiet();
    Object.assign(this.viewer, { overlay: {}, second: null }).draw();
    if (this.on.checked && this.viewer.game) this.timer = setTimeout(() => this.search(), 120);
  }
  search() {
    const networks = this.networks.map((select) => select.value).filter(Boolean);
    if (!networks.length) { this.words.textContent = "there is no network yet; a run writes its first after some minutes"; return; }
    const visits = Math.max(0, Math.min(10000, Math.round(Number(this.visits.value) || 0)));
    const body = { position: this.viewer.position(), networks, visits, on_device: this.device.checked };
    this.words.textContent = "asking …";
    this.run("think", body, (part) => {
      if (part.network === undefined) return;
      this.seen[part.network] = { ...this.seen[part.network], ...part };
      this.draw();
    });
  }
  draw() {
    if (!this.seen?.length) return;
    const { viewer } = this;
    const overlays = this.seen.map((seen) => {
      const kinds = {
        candidates: seen.candidates ? { candidates: seen.candidates } : { policy: seen.policy, tints: seen.tints },
        policy: { policy: seen.policy, tints: seen.tints }, ownership: { ownership: seen.ownership },
      };
      return { ...kinds[this.view.value], caption: this.seen.length > 1 ? seen.name : "" };
    });
    Object.assign(viewer, { overlay: overlays[0] ?? {}, second: overlays[1] ?? null }).draw();
    this.words.replaceChildren(...this.seen.map((seen) => this.said(seen)));
  }
  said(seen) {
    const { size, columns } = this.viewer.game;
    const name = (action) => vertex(action, size, columns);
    const { next } = this.viewer.node;
    const top = seen.policy.map((share, action) => [share, action]).sort((a, b) => b[0] - a[0]).slice(0, 5);
    const rows = (seen.candidates ?? []).slice(0, 8).map((move) => {
      const cells = [name(move.action), percent(move.winrate, 1), lead(next === "b" ? move.score : -move.score), move.visits,
        percent(move.prior), move.line.slice(1, 7).map(name).join(" ")];
      return h("tr", { tabindex: 0, onpointerenter: () => this.viewer.point(move.action), onfocus: () => this.viewer.point(move.action),
        onpointerleave: () => this.viewer.point(null), onblur: () => this.viewer.point(null),
        onkeydown: (event) => event.key === "Enter" && this.viewer.play(move.action) }, cells.map((cell) => h("td", {}, `${cell}`)));
    });
    const head = ["move", next === "b" ? "Black wins" : "White wins", "score", "visits", "prior", "then"];
    return h("div", {}, h("h3", {}, seen.name),
      h("p", {}, `Network: ${winrateText(seen, next)}, ${lead(seen.score)}. Likes ${top.map(([share, action]) => `${name(action)} ${percent(share)}`).join(", ")}.`),
      seen.searched && h("p", {}, `Search, ${seen.visits} visits: Black wins ${percent(seen.searched.winrate, 1)}.`),
      rows.length > 0 && table(head, rows));
  }
  overTime() {
    const run = this.runs.find((one) => one.networks.some(([name]) => name === this.networks[0].value));
    if (!run) return;
    const every = run.networks, most = 60;
    const some = every.length <= most ? every : Array.from({ length: most }, (_, index) => every[Math.round((index * (every.length - 1)) / (most - 1))]);
    const { size, columns } = this.viewer.game, rows = [], points = [];
    this.run("over_time", { position: this.viewer.position(), networks: some.map(([name]) => name) }, (part) => {
      if (part.network === undefined) return;
      const [file, step] = some[part.network], label = step < 0 ? file.split("/").pop() : `${step}`;
      const cells = part.error ? [label, part.error, "", ""] : [label, percent(part.winrate, 1), lead(part.score),
        part.moves.map(([action, share]) => `${vertex(action, size, columns)} ${percent(share)}`).join(", ")];
      if (!part.error) points.push({ x: step < 0 ? part.network : step, y: 100 * part.winrate, label: `${label}: ${percent(part.winrate, 1)}` });
      rows.push(h("tr", {}, h("td", {}, h("button", { class: "link", onclick: () => { this.networks[0].value = file; this.on.checked = true; this.again(); } }, cells[0])),
        cells.slice(1).map((cell) => h("td", {}, cell))));
      this.result.replaceChildren(h("h3", {}, `This position over the training of ${run.name}`), points.length > 1 ? stepChart(points, "Black's winrate in % by training step") : "",
        table(["step", "Black wins", "score", "likes"], rows.toReversed()));
    });
  }
  curve() {
    const { viewer } = this, line = viewer.line(), { game } = viewer;
    const first = line.findLastIndex((at) => game.nodes[at].start); // of the stretch since stones were set up
    this.run("curve", { position: viewer.position(line.at(-1)), networks: [this.networks[0].value] }, (part) => {
      if (part.from === undefined) return;
      part.winrates.forEach((winrate, index) => Object.assign(game.nodes[line[first + part.from + index]], { winrate, score: part.scores[index] }));
      if (viewer.game === game) viewer.drawCurve();
      this.result.replaceChildren(h("p", {}, `The curve now shows ${part.name}'s own evaluation, without a search.`));
    });
  }
  planes() {
    const { size } = this.viewer.game, { stones } = this.viewer.node;
    this.run("planes", { position: this.viewer.position(), networks: [this.networks[0].value] }, (part) => {
      if (!part.planes) return;
      const whole = part.globals.map(([name, value]) => `${name} ${value}`).join(", ");
      this.result.replaceChildren(h("h3", {}, `Network input: ${part.encoder}, ${part.planes.length} planes${whole ? `; ${whole}` : ""}`),
        h("div", { class: "planes" }, part.planes.map((values, index) => h("figure", {}, planeOf(values, size, stones, part.names[index]),
          h("figcaption", {}, `${index} ${part.names[index]}`)))));
    });
  }
}
