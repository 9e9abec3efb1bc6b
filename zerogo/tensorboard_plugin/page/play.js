// A game against a network, from its first move to the score.

import { h, lead, percent, post, stream } from "./api.js";

export class Play {
  constructor({ viewer, say, cost, think, onstart }) {
    Object.assign(this, { viewer, say, cost, think, onstart });
    const field = (attributes) => h("input", { type: "number", ...attributes });
    this.network = h("select", { "aria-label": "opponent" });
    this.colour = h("select", {}, h("option", { value: "b" }, "Black"), h("option", { value: "w" }, "White"));
    this.visits = field({ min: 1, max: 10000, value: 100 });
    this.handicap = field({ min: 0, max: 9, value: 0 });
    this.komi = field({ step: 0.5, placeholder: "its own" });
    this.size = field({ min: 1, max: 25, placeholder: "its own" });
    const line = (text, element) => h("label", { class: "row" }, h("span", {}, text), element);
    const button = (text, act) => h("button", { onclick: act }, text);
    this.state = h("p", { class: "words", "aria-live": "polite" }, "Choose a network and begin.");
    this.acts = h("div", { class: "row", hidden: true }, button("Undo", () => this.undo()), button("Pass ", () => this.play(this.viewer.game.size ** 2)),
      button("Resign", () => this.resign()), button("Count now", () => this.count()));
    this.counting = h("div", { class: "row", hidden: true }, button("Agree", () => this.agree()), button("Play on", () => this.playOn()));
    this.element = h("aside", { class: "list play" }, h("h2", {}, "Play against a network"),
      line("network", this.network), line("you are", this.colour), line("its visits", this.visits), line("handicap", this.handicap),
      line("komi", this.komi), line("board", this.size),
      h("div", { class: "row" }, button("New game", () => this.begin()), button("Go on from the board", () => this.begin(true))),
      this.acts, this.counting, this.state);
  }
  list(runs) {
    const before = this.network.value;
    this.network.replaceChildren(...Array.from(this.think.networks[0].children, (group) => group.cloneNode(true)));
    if ([...this.network.options].some((option) => option.value === before)) this.network.value = before;
    this.runs = runs;
  }

  // fromBoard: go on from the position that is shown.
  async begin(fromBoard = false) {
    if (!this.network.value) return this.say("there is no network yet; a run writes its first after some minutes");
    const whole = (input) => (input.value === "" ? null : Number(input.value));
    try {
      let { game } = this.viewer;
      if (fromBoard) {
        const path = this.viewer.path(this.viewer.at);
        const nodes = path.map((at, index) => ({ ...game.nodes[at], parent: index ? index - 1 : undefined }));
        game = { ...game, nodes };
      } else {
        game = await post("new", { networks: [this.network.value], handicap: whole(this.handicap) ?? 0, komi: whole(this.komi), size: whole(this.size) });
      }
      const [mine, its] = ["you", this.network.selectedOptions[0].textContent];
      const [black, white] = this.colour.value === "b" ? [mine, its] : [its, mine];
      this.game = { ...game, black, white, result: "?", comment: "", name: "game.sgf" };
      this.mine = this.colour.value;
      this.run = this.runs.find((run) => run.networks.some(([name]) => name === this.network.value)).name;
      Object.assign(this, { file: null, over: false });
      this.finish(null);
      this.viewer.show(this.game, this.game.nodes.length - 1);
      this.onstart();
      await this.turn();
    } catch (error) { this.say(error.message); }
  }
  get playing() { return Boolean(this.game) && this.viewer.game === this.game; }
  // Deals with a point that was clicked, or a pass; returns whether the game wants it.
  play(action) {
    if (!this.playing) return false;
    if (this.dead) { if (action < this.game.size ** 2) this.count(action); return true; }
    if (this.over) this.say("the game is over; Undo takes moves back");
    else if (this.busy) this.say("the network thinks; wait for its move, or Undo");
    else if (this.viewer.following(this.viewer.at) != null) this.say("step to the last move to go on; Undo takes moves back");
    else this.viewer.tryMove(action).then((legal) => legal && this.turn());
    return true;
  }
  async turn() {
    const { viewer, game } = this, { node } = viewer;
    this.acts.hidden = false;
    const pass = game.size ** 2;
    if (node.action === pass && game.nodes[node.parent]?.action === pass) return this.count();
    if (node.next === this.mine) { this.state.textContent = "Your move."; return this.save(); }
    this.busy = new AbortController();
    const { signal } = this.busy;
    const body = { position: viewer.position(), networks: [this.network.value], visits: Math.max(1, Math.min(10000, Math.round(Number(this.visits.value) || 1))) };
    this.state.textContent = "The network thinks …";
    let found;
    try {
      await stream("genmove", body, (part) => {
        if (part.cpu != null) this.cost(part);
        if (part.visits) this.state.textContent = `The network thinks … ${part.visits} visits`;
        if ("action" in part) found = part;
      }, signal, "play");
    } catch (error) {
      if (!signal.aborted) this.say(error.message);
    }
    this.cost(null);
    if (signal.aborted || !this.playing) return;
    this.busy = null;
    if (!found) { this.state.textContent = "The network has not answered; Undo, or pass the turn again."; return; }
    if (found.action == null) return this.end(`${this.mine.toUpperCase()}+R`, "The network resigns.");
    viewer.go(viewer.line().at(-1));
    const more = { winrate: found.searched.winrate, score: found.searched.score };
    const colour = viewer.node.next;
    await viewer.tryMove(found.action, more);
    const words = `Its move: ${percent(colour === "b" ? more.winrate : 1 - more.winrate)} for it, ${lead(more.score)}.`;
    await this.turn();
    if (!this.dead && !this.over) this.state.textContent = `${words} Your move.`;
  }
  undo() {
    this.busy?.abort();
    Object.assign(this, { busy: null, over: false });
    this.finish(null);
    this.game.result = "?";
    const { viewer } = this;
    viewer.go(viewer.line().at(-1));
    const removable = () => viewer.node.mine;
    if (!removable()) return this.say("nothing has been played yet");
    do viewer.prune(); while (removable() && viewer.node.next !== this.mine);
    this.turn();
  }
  resign() {
    if (this.over) return this.say("the game is over already");
    this.busy?.abort();
    this.busy = null;
    this.end(`${this.mine === "b" ? "W" : "B"}+R`, "You resigned.");
  }

  // Counts with the network's judgement of dead stones; toggle: a stone whose string lives where it was dead, or dies.
  async count(toggle = null) {
    this.state.textContent = "Counting …";
    try {
      await stream("score", { position: this.viewer.position(), networks: [this.network.value], dead: this.dead ?? null, toggle }, (part) => {
        if (!part.dead) return;
        this.finish(part.dead);
        this.counted = part.result;
        this.viewer.overlay = { ownership: part.ownership, dead: part.dead };
        this.viewer.draw();
        this.state.textContent = `${part.result === "0" ? "A draw" : part.result}, komi included; crossed stones are dead. Click a string if you see that otherwise, then agree.`;
      }, undefined, "play");
    } catch (error) { this.say(error.message); }
  }
  finish(dead) {
    this.dead = dead;
    this.counting.hidden = !dead;
    if (!dead && this.playing) { this.viewer.overlay = {}; this.viewer.draw(); }
  }
  playOn() {
    this.finish(null);
    this.state.textContent = "The game goes on; Undo takes the passes back.";
  }
  agree() { this.end(this.counted, "Counted."); }

  end(result, words) {
    Object.assign(this, { over: true, dead: null });
    Object.assign(this.game, { result });
    this.counting.hidden = true;
    this.viewer.title.textContent = `${this.game.black} – ${this.game.white}  ${result}`;
    this.state.textContent = `${words} ${result === "0" ? "A draw." : `${result[0] === "B" ? "Black" : "White"} wins, ${result}.`}`;
    this.save();
  }

  // The game as it is, in the run's folder `played`.
  async save() {
    const { game, viewer } = this;
    if (!viewer.node.action && viewer.node.action !== 0) return;
    try {
      const body = { run: this.run, position: viewer.position(viewer.line().at(-1)), black: game.black, white: game.white, result: game.result };
      const { saved } = await post("save", { ...body, file: this.file }).catch((error) => // TensorBoard has been restarted
        (error.message.startsWith("file is none") ? post("save", body) : Promise.reject(error)));
      if (game === this.game) this.file = saved;
    } catch (error) { this.say(`the game is not saved: ${error.message}`); }
  }
}
