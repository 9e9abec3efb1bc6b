// The game that is shown: its tree, where in it one is, the board, stepping and trying moves.

import { Board } from "./board.js";
import { gameChart } from "./chart.js";
import { get, h, lead, percent, post, vertex } from "./api.js";
import { positionAt } from "./played.js";

export class Viewer {
  // onchange(): another position is shown. onplay(action): somebody wants to play; true where that was dealt with.
  // owns(game): whether somebody else alone changes the game.
  constructor({ onchange, onplay, owns, say }) {
    Object.assign(this, { onchange, onplay, owns, say, overlay: {}, second: null });
    const board = (label) => new Board({
      label, onplay: (point) => this.play(point), onwheel: (step) => this.step(step), onpoint: (point) => this.point(point),
    });
    this.boards = [board("Go board"), board("Go board, second network")];
    this.slider = h("input", { type: "range", min: 0, value: 0, "aria-label": "move",
      oninput: () => this.go(this.line()[Number(this.slider.value)]) });
    const button = (text, name, act) => h("button", { onclick: act, title: name, "aria-label": name }, text);
    this.move = h("input", { class: "move", placeholder: "D4 or pass", "aria-label": "play a move", size: 9,
      onkeydown: (event) => event.key === "Enter" && this.typed() });
    this.title = h("h2", {});
    [this.facts, this.comment, this.notes] = ["facts", "comment", "soft"].map((name) => h("p", { class: name }));
    this.curve = h("div", { class: "curve-place" });
    this.captions = [h("figcaption", {}), h("figcaption", {})];
    this.figures = this.boards.map((one, index) => h("figure", {}, one.element, this.captions[index]));
    this.steps = h("div", { class: "row steps" },
      button("|◀", "first move (Home)", () => this.step(-1e9)), button("◀◀", "ten moves back (Page up)", () => this.step(-10)),
      button("◀", "one move back (Left)", () => this.step(-1)), button("▶", "one move on (Right)", () => this.step(1)),
      button("▶▶", "ten moves on (Page down)", () => this.step(10)), button("▶|", "last move (End)", () => this.step(1e9)),
      button("⇅", "other variation (Up, Down)", () => this.sibling(1)), this.slider);
    this.element = h("section", { class: "viewer", tabindex: -1 }, this.title, h("div", { class: "boards" }, this.figures), this.facts,
      this.steps, h("div", { class: "row" }, this.move, button("Play", "play the move that is typed", () => this.typed()),
        button("Pass", "pass (P)", () => this.play(this.game.size ** 2)),
        button("✕ variation", "remove this variation (Delete)", () => this.prune())),
      this.curve, this.comment, this.notes);
  }

  // A game of the server: {size, …, nodes}. at: the node to begin with, the last of the main line where it is left out.
  show(game, at = 0) {
    Object.assign(this, { game, at, latest: null }); // a game that is still being loaded comes too late
    game.nodes.forEach((node) => { node.children = []; node.next_child = null; });
    game.nodes.forEach((node, index) => index && game.nodes[node.parent].children.push(index));
    this.changed();
  }
  get node() { return this.game.nodes[this.at]; }
  // The nodes from the root over the present one to the end of its line.
  line() {
    const before = this.path(this.at);
    for (let at = this.at; (at = this.following(at)) != null;) before.push(at);
    return before;
  }
  path(at) {
    const nodes = [];
    for (; at !== undefined; at = this.game.nodes[at].parent) nodes.unshift(at);
    return nodes;
  }
  following(at) {
    const node = this.game.nodes[at];
    return node.next_child ?? node.children[0];
  }

  position(at = this.at) { return positionAt(this.game, at); }
  go(at) {
    if (at == null || at === this.at) return;
    for (const one of this.path(at).slice(1)) this.game.nodes[this.game.nodes[one].parent].next_child = one;
    this.at = at;
    this.changed();
  }
  step(by) {
    const line = this.line();
    const here = line.indexOf(this.at);
    this.go(line[Math.max(0, Math.min(line.length - 1, here + by))]);
  }
  sibling(by) {
    for (let at = this.at; this.game.nodes[at].parent !== undefined; at = this.game.nodes[at].parent) {
      const all = this.game.nodes[this.game.nodes[at].parent].children;
      if (all.length > 1) return this.go(all[(all.indexOf(at) + by + all.length) % all.length]);
    }
    this.say("there is no other variation up to here");
  }

  // Adds a position after the present one, and goes there.
  add(colour, action, node, more = {}) {
    const nodes = this.game.nodes;
    nodes.push({ ...node, parent: this.at, colour, action, children: [], next_child: null, mine: true, ...more });
    this.node.children.push(nodes.length - 1);
    this.go(nodes.length - 1);
  }
  typed() {
    const text = this.move.value.trim().toUpperCase();
    const { size, columns } = this.game;
    const [column, row] = [columns.indexOf(text[0]), Number(text.slice(1))];
    if (text === "PASS") this.play(size ** 2);
    else if (text && column >= 0 && row >= 1 && row <= size) this.play((size - row) * size + column);
    else this.say(`${this.move.value || "nothing"} is no move; allowed are A1 to ${columns[size - 1]}${size}, and pass`);
    this.move.value = "";
  }
  async play(action) {
    if (!this.game || this.onplay(action)) return;
    await this.tryMove(action);
  }

  // Plays a move if it is legal; returns whether it was.
  async tryMove(action, more = {}) {
    const child = this.node.children.find((at) => this.game.nodes[at].action === action && this.game.nodes[at].colour === this.node.next);
    if (child !== undefined) { this.go(child); return true; }
    const [game, at, colour, position] = [this.game, this.at, this.node.next, this.position()];
    position.moves = [...position.moves, [colour, action]];
    try {
      const node = await post("move", { position });
      if (game === this.game && at === this.at) this.add(colour, action, node, more);
      return true;
    } catch (error) {
      this.say(error.message);
      return false;
    }
  }
  prune() {
    if (this.owns(this.game)) return this.say("this game is being played; Undo takes moves back");
    if (!this.node.mine) return this.say("this move belongs to the game; only moves that you tried are removed");
    const { at, node } = this, parent = this.game.nodes[node.parent];
    parent.children = parent.children.filter((one) => one !== at);
    parent.next_child = null;
    this.go(node.parent);
  }

  // All lines, as positions for the server, the main one first.
  lines() {
    const leaves = (at) => (this.game.nodes[at].children.length ? this.game.nodes[at].children.flatMap(leaves) : [at]);
    return leaves(0).map((at) => this.position(at));
  }
  point(point) {
    const move = this.overlay.candidates?.find((one) => one.action === point);
    const line = move && move.line.map((action, ply) => [(ply % 2 === 0) === (this.node.next === "b") ? "b" : "w", action]);
    if (this.hovered?.action === move?.action) return;
    this.hovered = move;
    this.draw(line);
  }
  changed() {
    Object.assign(this, { overlay: {}, second: null, hovered: undefined });
    const { node, game } = this, line = this.line(), number = line.indexOf(this.at);
    this.title.textContent = game.black ? `${game.black} – ${game.white}  ${game.result ?? ""}` : "A game";
    const move = node.action == null ? "start" : `move ${number}: ${node.colour === "b" ? "Black" : "White"} ${vertex(node.action, game.size, game.columns)}`;
    const seen = node.winrate == null ? "" : `, Black wins ${percent(node.winrate)}${node.score == null ? "" : `, ${lead(node.score)}`}`;
    this.facts.textContent = `${move}${seen} · ${node.next === "b" ? "Black" : "White"} to move · prisoners: Black ${node.captures[0]}, White ${node.captures[1]}`
      + ` · komi ${game.komi}, ${game.scoring} scoring, ${game.superko} ko${game.suicide ? ", suicide" : ""}`;
    this.comment.textContent = [number === 0 && game.comment, node.comment].filter(Boolean).join("\n");
    this.notes.textContent = (game.notes ?? []).join("; ");
    Object.assign(this.slider, { max: line.length - 1, value: number });
    this.drawCurve(line, number);
    this.draw();
    this.onchange();
  }
  drawCurve(line = this.line(), number = line.indexOf(this.at)) {
    const nodes = line.map((at) => this.game.nodes[at]);
    const [winrates, scores] = ["winrate", "score"].map((name) => nodes.map((node) => node[name] ?? null));
    const has = [...winrates, ...scores].some((value) => value != null);
    this.curve.replaceChildren(...(has ? [gameChart({ winrates, scores, at: number, onmove: (move) => this.go(line[move]) })] : []));
  }

  // Draws the boards; line: a best line to show in place of the candidates.
  draw(line) {
    const { size, columns, stars } = this.game;
    const base = { size, columns, stars, stones: this.node.stones, last: this.node.action };
    [this.overlay, this.second].forEach((overlay, index) => {
      this.figures[index].hidden = !overlay;
      if (overlay) this.boards[index].draw({ ...base, ...overlay, ...(line ? { candidates: null, policy: null, line } : {}) });
      this.captions[index].textContent = overlay?.caption ?? "";
    });
  }
  async load(path) {
    const latest = (this.latest = {}), game = await get("game", { path });
    return latest === this.latest && (this.show(game), true); // answers may overtake each other
  }
  key(event) {
    const acts = {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), PageUp: () => this.step(-10), PageDown: () => this.step(10),
      Home: () => this.step(-1e9), End: () => this.step(1e9), ArrowUp: () => this.sibling(-1), ArrowDown: () => this.sibling(1),
      p: () => this.play(this.game.size ** 2), Delete: () => this.prune(), m: () => this.move.focus(),
    };
    if (!this.game || !acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }
}
