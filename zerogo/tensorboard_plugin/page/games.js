// The list of games: a page at a time, filtered on the server; loading and saving SGF.

import { get, h, post } from "./api.js";

const FILTERS = {
  run: [], kind: [["", "any kind"], ["self-play", "self-play"], ["match", "match"], ["played", "played here"]],
  result: [["", "any result"], ["B", "Black won"], ["W", "White won"], ["0", "draw"], ["?", "unknown"]],
  end: [["", "any end"], ["passes", "two passes"], ["settled", "settled"], ["resigned", "resigned"], ["capped", "move cap"], ["time", "time"], ["fault", "fault"], ["unfinished", "unfinished"]],
};

export class Games {
  // onopen(game row): somebody wants to see a game.
  constructor({ viewer, say, onopen }) {
    Object.assign(this, { viewer, say, onopen });
    const reload = () => this.reload();
    this.filters = Object.fromEntries(Object.entries(FILTERS).map(([name, options]) => [name,
      h("select", { onchange: reload, "aria-label": name }, options.map(([value, text]) => h("option", { value }, text)))]));
    const field = (name, type, label) => (this.filters[name] = h("input", { type, onchange: reload, placeholder: label, "aria-label": label, min: 0 }));
    const fields = [field("player", "search", "player or opponent"), field("least", "number", "moves from"), field("most", "number", "moves to")];
    this.list = h("ol", { class: "games" });
    this.said = h("p", { class: "soft", "aria-live": "polite" });
    this.more = h("button", { onclick: () => this.page(), hidden: true }, "More games");
    this.file = h("input", { type: "file", accept: ".sgf", hidden: true, onchange: () => this.loadFile() });
    this.element = h("aside", { class: "list" },
      h("details", { open: true }, h("summary", {}, "Games"),
        h("div", { class: "filters" }, ["run", "kind", "result", "end"].map((name) => this.filters[name]), fields),
        h("div", { class: "row" }, h("button", { onclick: () => this.file.click() }, "Load SGF"), this.file,
          h("button", { onclick: () => this.save() }, "Save SGF"), h("button", { onclick: reload, title: "refresh" }, "⟳")),
        this.said, this.list, this.more));
  }
  runs(runs) {
    const chosen = this.filters.run.value;
    const named = runs.filter((run) => run.sources.length);
    this.filters.run.replaceChildren(h("option", { value: "" }, "every run"), ...named.map((run) => h("option", { value: run.name }, run.name)));
    this.filters.run.value = named.some((run) => run.name === chosen) ? chosen : "";
  }
  set(filters) {
    for (const [name, element] of Object.entries(this.filters)) element.value = filters[name] ?? "";
    return this.reload();
  }
  async reload() {
    Object.assign(this, { next: "", rows: [], looked: 0 });
    this.list.replaceChildren();
    await this.page();
  }
  async page() {
    const filters = Object.fromEntries(Object.entries(this.filters).map(([name, element]) => [name, element.value]));
    const token = (this.token = {});
    try {
      // A page that a rare filter leaves empty asks on, so that there is something to see.
      for (let added = 0, more = true; more && added < 20;) {
        const page = await get("games", { ...filters, after: this.next });
        if (token !== this.token) return;
        this.add(page.games);
        added += page.games.length;
        this.looked += page.looked;
        this.next = page.next;
        more = Boolean(page.next);
        this.said.textContent = `${this.rows.length} shown, ${this.looked} of ${page.total} games searched`;
        if (this.rows.length > 1000) break;
      }
    } catch (error) { this.say(error.message); }
    this.more.hidden = !this.next;
  }
  add(games) {
    for (const game of games) {
      const names = game.black === game.white ? game.black : `${game.black} – ${game.white}`;
      const when = new Date(1000 * game.when).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
      const button = h("button", { onclick: () => this.open(game), "data-path": game.path },
        h("b", {}, game.result || "?"), h("span", {}, ` ${names}`), h("small", {}, `${game.kind} · ${game.size}×${game.size} · ${game.moves} moves · ${game.end} · ${when}`));
      this.rows.push({ game, button });
      this.list.append(h("li", {}, button));
    }
  }
  async open(game) {
    this.opened = game.path;
    for (const row of this.rows) row.button.setAttribute("aria-current", row.game.path === game.path);
    try {
      if (await this.viewer.load(game.path)) this.onopen(game);
    } catch (error) { this.say(error.message); }
  }

  // The next or the previous game of the list.
  neighbour(by) {
    const here = this.rows.findIndex((row) => row.game.path === this.opened);
    const row = this.rows[here + by];
    if (row) { this.open(row.game); row.button.scrollIntoView({ block: "nearest" }); }
  }
  async loadFile() {
    const [file] = this.file.files;
    this.file.value = "";
    if (!file) return;
    if (file.size > 2 ** 19) return this.say(`${file.name} is larger than 512 KiB; no single game is`);
    try {
      const bytes = new Uint8Array(await file.arrayBuffer()); // as they are: the server finds out the encoding
      const game = await post("load", { sgf: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) });
      this.viewer.show({ ...game, name: file.name });
      this.say(`${file.name} is shown; it stays in this browser`);
      this.onopen(null);
    } catch (error) { this.say(error.message); }
  }
  async save() {
    const { viewer } = this;
    if (!viewer.game) return this.say("no game is shown yet");
    try {
      const { black, white, result, date } = viewer.game; // a loaded game may have no date, a new one is of today
      const { sgf, left_out: out } = await post("text", { lines: viewer.lines(), black, white, date: date === "" ? null : date, result: /^([BW]\+([A-Za-z]{1,7}|\d{1,4}(\.\d{1,2})?)|0|Draw|Void)$/.test(result) ? result : "?" });
      const link = h("a", { href: URL.createObjectURL(new Blob([sgf], { type: "application/x-go-sgf" })), download: viewer.game.name?.replace(/[^\w.-]/g, "_") || "game.sgf" });
      link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      const rest = viewer.game.nodes.some((node, at) => at && node.start) ? "; moves before the stones were set up are missing" : "";
      this.say(`the game is saved with its variations${out ? `, but without ${out} of them: a file holds up to 100 lines, all from the same starting position` : ""}${rest}`);
    } catch (error) { this.say(error.message); }
  }
}
