// How a run is doing: numbers, alarms, ratings, matches, openings, games under way.

import { Board } from "./board.js";
import { stepChart } from "./chart.js";
import { get, h, percent, table, vertex } from "./api.js";

const NUMBERS = [["step", "training steps"], ["time/games", "games"], ["time/minutes", "minutes"], ["time/iterations", "iterations"],
  ["selfplay/games_per_s", "games/s"], ["selfplay/moves_per_s", "moves/s"], ["selfplay/simulations_per_s", "simulations/s"],
  ["train/samples_per_s", "samples learned/s"], ["selfplay/game_length_plies", "moves a game"], ["selfplay/black_winrate", "Black wins"],
  ["selfplay/share_resigned", "resigned"], ["selfplay/share_capped", "move cap"], ["train/loss", "loss"], ["replay/reuse", "uses of a sample"]];

export class Run {
  // onmatch(run, opponent): the games of a match are requested.
  constructor({ say, onmatch }) {
    Object.assign(this, { say, onmatch });
    this.select = h("select", { "aria-label": "run", onchange: () => this.load() });
    this.body = h("div", { class: "status" });
    this.element = h("section", { class: "run" }, h("div", { class: "row" }, h("h2", {}, "Status"), this.select,
      h("button", { onclick: () => this.load() }, "⟳")), this.body);
  }
  runs(runs) {
    const before = this.select.value, named = runs.filter((run) => run.sources.length || run.networks.length > 0);
    this.select.replaceChildren(...named.map((run) => h("option", { value: run.name }, run.name === "." ? "the log directory" : run.name)));
    if (named.some((run) => run.name === before)) this.select.value = before;
  }
  async load() {
    const run = this.select.value;
    if (!run) { this.body.textContent = "There is no run in the log directory yet."; return; }
    const places = ["numbers", "alarms", "ratings", "matches", "openings", "flight"].map((name) => h("section", { class: name }, "…"));
    this.body.replaceChildren(...places);
    const [numbers, alarms, ratings, matches, openings, flight] = places;
    const fill = async (work, ...targets) => {
      try { await work(); } catch (error) { targets.forEach((one) => one.replaceChildren(h("p", { class: "soft" }, error.message))); }
    };
    await fill(async () => {
      const status = await get("status", { run });
      this.numbers(numbers, status);
      this.alarms(alarms, status.alarms);
      this.ratings(ratings, status.ratings, status.matches);
      this.matches(matches, status.matches, run);
    }, numbers, alarms, ratings, matches);
    await fill(() => this.openings(openings, run), openings);
    await fill(() => this.flight(flight, run), flight);
  }
  numbers(place, { latest, rates }) {
    const share = (name, value) => (/winrate|share/.test(name) ? percent(value, 1) : value >= 100 ? Math.round(value).toLocaleString() : value.toPrecision(3));
    const cells = NUMBERS.filter(([name]) => latest[name] != null).map(([name, text]) => h("div", {}, h("b", {}, share(name, latest[name])), h("span", {}, text)));
    const ago = latest.time && Math.round(Date.now() / 1000 - latest.time);
    const updated = latest.time ? `last update ${ago < 120 ? `${ago} s` : ago < 7200 ? `${Math.round(ago / 60)} min` : `${Math.round(ago / 3600)} h`} ago` : "The run has written no numbers yet.";
    const points = rates.map(([step, minutes, rate]) => ({ x: minutes ?? step, y: rate, label: `step ${step}: ${rate.toFixed(2)} games/s` }));
    place.replaceChildren(h("h3", {}, "Throughput"), h("p", { class: "soft" }, updated), h("div", { class: "numbers-grid" }, cells),
      points.length > 1 ? h("figure", {}, stepChart(points, "games a second by minutes"), h("figcaption", {}, "games a second of self-play, by minutes")) : "");
  }
  alarms(place, alarms) {
    const well = ([, value, low, high]) => value != null && low <= value && value <= high, bad = alarms.filter((alarm) => !well(alarm));
    const row = ([name, value, low, high, points]) => h("tr", { class: well([name, value, low, high]) ? "" : "bad" },
      [well([name, value, low, high]) ? "✓" : "✗", name.replaceAll("_", " "), value?.toPrecision(3) ?? "not a number", `${low} to ${high}`, points].map((cell) => h("td", {}, `${cell}`)));
    const list = (rows) => table(["", "check", "value", "healthy", "a failure points to"], rows.map(row));
    place.replaceChildren(h("h3", {}, "Alarms"), alarms.length === 0 ? h("p", {}, "No checks have been made yet.")
      : bad.length ? list(bad) : h("p", {}, `All ${alarms.length} sanity checks passed.`),
      alarms.length ? h("details", {}, h("summary", {}, "all checks"), list(alarms)) : "");
  }
  ratings(place, ratings, matches) { // other networks than the run's own have no place on its curve
    const run = (name) => name.slice(0, name.lastIndexOf("@")), own = new Set(matches.map(([, player]) => run(player)));
    const parts = Object.entries(ratings).map(([size, rows]) => {
      const points = rows.map(([name, elo, low, high]) => ({ x: own.has(run(name)) ? Number(name.slice(name.lastIndexOf("@") + 1)) : NaN, y: elo, low, high, label: `${name}: ${elo} (${low} to ${high})` }));
      const steps = points.filter((point) => Number.isFinite(point.x));
      const cells = rows.map(([name, elo, low, high]) => h("tr", {}, h("td", {}, name), h("td", {}, `${elo}`), h("td", {}, high > low ? `${low} to ${high}` : "anchor")));
      return [steps.length > 1 ? h("figure", {}, stepChart(steps, "Elo by training step"), h("figcaption", {}, `Elo on ${size}×${size} by training step, with 95 % intervals`)) : "",
        table([`player, ${size}×${size}`, "Elo", "95 % interval"], cells)];
    });
    place.replaceChildren(h("h3", {}, "Ratings"), ...(parts.length ? parts.flat() : [h("p", {}, "No matches yet; evaluation.every_minutes lets a run play some.")]));
  }
  matches(place, matches, run) {
    const players = [...new Set(matches.map(([, player]) => player))], opponents = [...new Set(matches.map(([, , opponent]) => opponent))];
    const cell = (player, opponent) => {
      const met = matches.filter(([, one, other]) => one === player && other === opponent);
      return h("td", {}, met.map(([size, , , points, games]) => h("button", { class: "link", title: `${player} against ${opponent} on ${size}×${size}: its games`,
        onclick: () => this.onmatch(run, player, opponent) }, `${points} of ${games}`)));
    };
    place.replaceChildren(h("h3", {}, "Matches"), matches.length ? table(["points of", ...opponents],
      players.map((player) => h("tr", {}, h("th", {}, player), opponents.map((opponent) => cell(player, opponent))))) : h("p", {}, "None yet."));
  }
  async openings(place, run, size) {
    const tree = await get("openings", { run, size });
    const board = new Board({ label: "the opening" });
    const base = { size: tree.size, columns: tree.columns, stars: tree.stars };
    const empty = "0".repeat(tree.size ** 2);
    const show = (moves) => board.draw({ ...base, stones: empty, line: moves.map((action, ply) => [ply % 2 ? "w" : "b", action]) });
    const row = (node, moves) => {
      const line = [...moves, node.action], children = node.children.filter((child) => child.count > 1);
      const text = h("span", { onmouseenter: () => show(line) }, `${vertex(node.action, tree.size, tree.columns)} `, h("b", {}, `${node.count}`), ` Black ${percent(node.black / node.count)}`);
      const inside = h("ul", {});
      const details = h("details", { ontoggle: () => { show(line); if (!inside.children.length) inside.append(...children.map((child) => row(child, line))); } }, h("summary", {}, text), inside);
      return h("li", {}, children.length ? details : h("span", { tabindex: 0, class: "leaf", onfocus: () => show(line) }, text));
    };
    show([]);
    const sizes = h("select", { "aria-label": "board", onchange: (event) => this.openings(place, run, event.target.value) }, tree.sizes.map((one) => h("option", { value: one, selected: one === tree.size }, `${one}×${one}`)));
    place.replaceChildren(h("h3", {}, "Openings"), tree.games ? h("p", { class: "soft" }, `of ${tree.games} games kept, up to symmetry: number of games and Black's win rate `, sizes) : h("p", {}, "No games yet."),
      h("div", { class: "opening" }, h("ul", {}, tree.children.map((node) => row(node, []))), board.element));
  }
  async flight(place, run) {
    place.replaceChildren(h("h3", {}, "Games in progress"), h("button", { onclick: async () => {
      try {
        const { games, when, total } = await get("in_flight", { run });
        const boards = games.map((game) => {
          const board = new Board({ label: `a game in progress after ${game.ply} moves` });
          board.draw({ ...game, plain: true });
          return h("figure", {}, board.element, h("figcaption", {}, `move ${game.ply}`));
        });
        place.lastChild.replaceChildren(h("p", { class: "soft" }, `${games.length} of ${total} games, from the newest snapshot, ${new Date(1000 * when).toLocaleTimeString()}`), h("div", { class: "flight-grid" }, boards));
      } catch (error) { this.say(error.message); }
    } }, "Show"), h("div", {}));
  }
}
