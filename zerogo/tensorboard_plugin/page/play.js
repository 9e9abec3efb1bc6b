// The panel of a game against a network (`played.js`): it shows the game's state and hands on what is asked. Its buttons
// are off while another game is shown.

import { h, post, stream } from "./api.js";
import { limits, PlayedGame, whyWrong } from "./played.js";

const KEPT = "zerogo played game"; // in the browser, for a reload
const BUTTONS = { undo: "Undo", pass: "Pass ", resign: "Resign", count: "Count now", think: "Ask again", agree: "Agree", playOn: "Play on" };
const RARE = ["think", "agree", "playOn"]; // which are seen only where they may be used

export class Play {
  constructor({ viewer, say, cost, think, onstart, onback }) {
    Object.assign(this, { viewer, say, cost, think, onstart });
    const field = (name, attributes) => {
      const input = h("input", { type: "number", ...limits(name), ...attributes, onchange: () => {
        const sentence = whyWrong(name, input.value);
        if (sentence) { say(sentence); input.value = input.defaultValue; }
      } });
      return input;
    };
    this.network = h("select", { "aria-label": "opponent" });
    this.colour = h("select", {}, h("option", { value: "b" }, "Black"), h("option", { value: "w" }, "White"));
    this.fields = { visits: field("visits", { value: 100 }), handicap: field("handicap", { value: 0 }), komi: field("komi", { placeholder: "network's" }), size: field("size", { placeholder: "network's" }) };
    const { visits, handicap, komi, size } = this.fields, line = (text, element) => h("label", { class: "row" }, h("span", {}, text), element);
    this.state = h("p", { class: "words", "aria-live": "polite" }, "Choose a network and begin.");
    this.buttons = Object.fromEntries(Object.entries(BUTTONS).map(([act, text]) => [act,
      h("button", { onclick: () => (act === "pass" ? this.play(this.played.pass) : this.played[act]()) }, text)]));
    this.acts = h("div", { class: "row", hidden: true }, Object.values(this.buttons));
    this.back = h("button", { hidden: true, onclick: () => { onback(); viewer.show(this.played.game, this.played.tip); } }, "Back to your game");
    this.element = h("aside", { class: "list play" }, h("h2", {}, "Play against a network"),
      line("network", this.network), line("you are", this.colour), line("network's visits", visits), line("handicap", handicap), line("komi", komi), line("board", size),
      h("div", { class: "row" }, h("button", { onclick: () => this.begin() }, "New game"), h("button", { onclick: () => this.begin(true) }, "Continue from here")),
      this.acts, this.back, this.state);
    const costly = (route) => (fields, each, signal) => stream(route, fields, (part) => { if (part.cpu != null) cost(part); each(part); }, signal, "play").finally(() => cost(null));
    const server = { move: (position) => post("move", { position }), genmove: costly("genmove"), score: costly("score"), save: (fields) => post("save", fields) };
    this.parts = { server, say, changed: () => this.changed(), visits: () => Number(visits.value) || 1 };
  }
  list(runs) {
    const before = this.network.value, listed = (name) => [...this.network.options].find((option) => option.value === name);
    this.network.replaceChildren(...Array.from(this.think.networks[0].children, (group) => group.cloneNode(true)));
    if (listed(before)) this.network.value = before;
    const { played } = this, newest = listed(runs.find((one) => one.name === played?.run)?.networks.at(-1)?.[0]);
    if (newest && !listed(played.network)) played.meet(newest.value, newest.textContent);
    this.runs = runs;
  }

  // fromBoard: go on from the position that is shown.
  async begin(fromBoard = false) {
    const network = this.network.value, whole = (name) => (this.fields[name].value === "" ? null : Number(this.fields[name].value));
    if (!network) return this.say("there is no network yet; a run writes its first after some minutes");
    try {
      let { game } = this.viewer;
      if (fromBoard) game = { ...game, nodes: this.viewer.path(this.viewer.at).map((at, index) => ({ ...game.nodes[at], parent: index ? index - 1 : undefined })) };
      else game = await post("new", { networks: [network], handicap: whole("handicap") ?? 0, komi: whole("komi"), size: whole("size") });
      const mine = this.colour.value, [black, white] = mine === "b" ? ["you", this.network.selectedOptions[0].textContent] : [this.network.selectedOptions[0].textContent, "you"];
      const run = this.runs.find((one) => one.networks.some(([name]) => name === network)).name;
      this.take({ game: { ...game, black, white, result: "?", comment: "", date: undefined, name: "game.sgf" }, mine, network, run });
      this.onstart();
      await this.played.proceed();
    } catch (error) { this.say(error.message); }
  }
  take(kept) {
    this.played?.stop();
    this.played = new PlayedGame(kept, this.parts);
    this.viewer.show(this.played.game, this.played.tip);
  }
  // Goes on with the game of before a reload; returns whether there is one that is not over.
  restore() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(KEPT));
      if (!kept || kept.state === "over") return false;
      this.take(kept);
      this.played.resume();
      return true;
    } catch { return false; } // the browser keeps nothing, or what another version kept
  }
  get playing() { return this.owns(this.viewer.game); }
  owns(game) { return this.played !== undefined && game === this.played.game; }
  // Deals with a point that was clicked, or a pass; returns whether the game wants it.
  play(action) {
    if (!this.playing) return false;
    if (this.viewer.at !== this.played.tip) this.say("step to the last move to continue; Undo takes moves back");
    else this.played.play(action);
    return true;
  }
  changed() {
    const { viewer, played } = this, { nodes, result } = played.game;
    try { sessionStorage.setItem(KEPT, JSON.stringify(played)); } catch { /* a reload will not find it */ }
    const shown = JSON.stringify([nodes.length, result, played.dead]);
    if (this.playing && this.shown !== shown) viewer.show(played.game, viewer.at === this.tip || viewer.at > played.tip ? played.tip : viewer.at);
    Object.assign(this, { shown, tip: played.tip });
    this.draw();
  }
  draw() {
    if (!this.played) return;
    const { playing, played } = this;
    this.state.textContent = playing ? played.words : `Another game is shown. In yours: ${played.words}`;
    for (const [act, button] of Object.entries(this.buttons)) {
      button.disabled = !playing || !played.may(act);
      button.hidden = RARE.includes(act) && !played.may(act);
    }
    this.acts.hidden = false;
    this.back.hidden = playing;
  }
  // Draws the score that is counted; returns whether it is.
  overlay() {
    const { viewer, played } = this;
    if (!this.playing || !played.dead || viewer.at !== played.tip) return false;
    viewer.overlay = { ownership: played.ownership, dead: played.dead };
    viewer.draw();
    return true;
  }
}
