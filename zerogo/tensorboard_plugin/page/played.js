// A game against a network as one state machine: what may be done in which state, and what then becomes of the game.
// It knows nothing of the page, so that node runs it, too. Nobody else changes its game, which is one line of nodes.

import { lead, percent } from "./api.js";

export const RULES = ["size", "komi", "superko", "suicide", "scoring"];
const FIELDS = { visits: [1, 10000, 1], handicap: [0, 9, 1], komi: [-1000, 1000, 0.5], size: [1, 25, 1] }; // least, most, step
const ACTS = {
  undo: ["yours", "checking", "thinking", "stuck", "counting", "counted", "over"], pass: ["yours"], count: ["yours", "stuck"],
  resign: ["yours", "checking", "thinking", "stuck", "counting", "counted"], agree: ["counted"], playOn: ["counted"], think: ["stuck"],
};
const WHY_NOT = { over: "the game is over; Undo takes moves back", counting: "the score is being counted", checking: "your move is on its way",
  thinking: "the network is thinking; wait for its move, or Undo", stuck: "the network has not answered; ask again, or Undo" };

// The attributes of a number's field, and what is wrong with a text in it, "" where nothing is; empty means the network's own value.
export const limits = (name) => Object.fromEntries(["min", "max", "step"].map((key, place) => [key, FIELDS[name][place]]));
export function whyWrong(name, text) {
  const [low, high, step] = FIELDS[name], value = Number(text);
  const fits = text.trim() === "" || (Number.isInteger(value / step) && low <= value && value <= high);
  return fits ? "" : `${name} is ${text}; allowed are ${step < 1 ? "half points" : "whole numbers"} from ${low} to ${high}`;
}

// A position for the server: from the last stones set up on the way to a node.
export function positionAt(game, at) {
  const moves = [];
  for (; !game.nodes[at].start; at = game.nodes[at].parent) moves.unshift([game.nodes[at].colour, game.nodes[at].action]);
  return { ...Object.fromEntries(RULES.map((name) => [name, game[name]])), start: game.nodes[at].start, moves };
}

export class PlayedGame {
  // kept: {game, mine, network, run}, or all that toJSON gave. server: {move, genmove, score, save}, which return promises.
  // visits(): of the next search. changed(): something is to be shown. say(sentence).
  constructor(kept, { server, visits, changed, say }) {
    Object.assign(this, { first: kept.game.nodes.length, file: null, state: "yours", words: "", dead: null, ownership: null, counted: null }, kept);
    Object.assign(this, { server, visits, changed, say, saving: Promise.resolve(), comment: "" });
  }
  toJSON() {
    const { game, mine, network, run, first, file, state, words, dead, ownership, counted } = this;
    return { game, mine, network, run, first, file, state, words, dead, ownership, counted };
  }
  get nodes() { return this.game.nodes; }
  get tip() { return this.nodes.length - 1; }
  get node() { return this.nodes[this.tip]; }
  get pass() { return this.game.size ** 2; }
  get isMine() { return this.node.next === this.mine; }
  may(act) { return ACTS[act].includes(this.state); }
  position() { return positionAt(this.game, this.tip); }

  // Every change of state ends what the one before waits for: its signal is aborted.
  enter(state, words) {
    this.abort?.abort();
    this.abort = new AbortController();
    if (state !== "counted" && state !== "counting") Object.assign(this, { dead: null, ownership: null, counted: null });
    Object.assign(this, { state, words });
    this.changed();
    return this.abort.signal;
  }
  stop() { this.abort?.abort(); }

  resume() { return this.state === "over" || this.state === "counted" ? this.changed() : this.proceed(); } // after a reload
  // Goes on with whoever is to move; after two passes the score is counted.
  proceed(counts = true) {
    if (counts && this.node.action === this.pass && this.nodes[this.tip - 1]?.action === this.pass) return this.count();
    if (!this.isMine) return this.think();
    this.enter("yours", `${this.comment} Your move.`.trim());
    return this.save();
  }
  // A point that was clicked, or a pass.
  async play(action) {
    if (this.state === "counted") return action < this.pass ? this.count(action) : undefined;
    if (this.state !== "yours") return this.say(WHY_NOT[this.state]);
    const { words } = this, signal = this.enter("checking", "Your move …");
    if (await this.add(action, {}, signal)) await this.proceed();
    else if (!signal.aborted) this.enter("yours", words);
  }
  // Adds a move if it is legal; returns whether it was, and the signal is not aborted.
  async add(action, more, signal) {
    const position = this.position(), colour = this.node.next;
    try {
      const node = await this.server.move({ ...position, moves: [...position.moves, [colour, action]] });
      if (signal.aborted) return false;
      this.nodes.push({ ...node, parent: this.tip, colour, action, children: [], next_child: null, mine: true, ...more });
      return true;
    } catch (error) {
      if (!signal.aborted) this.say(error.message);
      return false;
    }
  }
  async think() {
    const signal = this.enter("thinking", "The network is thinking …");
    let choice = null;
    try {
      await this.server.genmove({ position: this.position(), networks: [this.network], visits: this.visits() }, (part) => {
        if ("action" in part) choice = part;
        else if (part.visits && !signal.aborted) { this.words = `The network is thinking … ${part.visits} visits`; this.changed(); }
      }, signal);
    } catch (error) { if (!signal.aborted) this.say(error.message); }
    if (signal.aborted) return;
    if (choice && choice.action == null) return this.end(`${this.mine.toUpperCase()}+R`, "The network resigns.");
    const { winrate, score } = choice?.searched ?? {};
    if (!choice || !(await this.add(choice.action, { winrate, score }, signal))) {
      if (!signal.aborted) this.enter("stuck", "The network has not answered.");
      return;
    }
    this.comment = `Its move: ${percent(this.mine === "w" ? winrate : 1 - winrate)} for it, ${lead(score)}.`;
    await this.proceed();
  }
  meet(network, name) { this.network = network; this.game[this.mine === "b" ? "white" : "black"] = name; this.say(`the network is gone; the game continues against ${name}`); } // as a run prunes its checkpoints
  undo() {
    if (this.state !== "checking") {
      if (this.nodes.length === this.first) return this.say("nothing has been played yet");
      do this.nodes.pop(); while (this.nodes.length > this.first && !this.isMine);
    }
    Object.assign(this.game, { result: "?" });
    this.comment = "";
    return this.proceed();
  }
  resign() { return this.end(`${this.mine === "b" ? "W" : "B"}+R`, "You resigned."); }

  // Counts with the network's judgement of dead stones; toggle: a stone whose string lives where it was dead, or dies.
  async count(toggle = null) {
    const { dead, words } = this, signal = this.enter("counting", "Counting …");
    let score = null;
    try {
      await this.server.score({ position: this.position(), networks: [this.network], dead, toggle }, (part) => { if (part.dead) score = part; }, signal);
    } catch (error) { if (!signal.aborted) this.say(error.message); }
    if (signal.aborted) return;
    if (!score) { this.enter(dead ? "counted" : this.isMine ? "yours" : "stuck", dead ? words : "The score was not counted."); return; }
    Object.assign(this, { dead: score.dead, ownership: score.ownership, counted: score.result });
    this.enter("counted", `${score.result === "0" ? "A draw" : score.result}, komi included; crossed stones are dead. Click a string to change its status, then agree.`);
  }
  playOn() {
    this.comment = "The game continues; Undo takes the passes back.";
    return this.proceed(false);
  }
  agree() { return this.end(this.counted, "Counted."); }
  end(result, words) {
    Object.assign(this.game, { result });
    this.enter("over", `${words} ${result === "0" ? "A draw." : `${result[0] === "B" ? "Black" : "White"} wins, ${result}.`}`);
    return this.save();
  }

  // Writes the game as it is into the run's folder `played`, one request after the other, so that all go into one file.
  save() {
    const { run, game: { black, white, result } } = this, fields = { run, position: this.position(), black, white, result };
    if (this.node.action == null) return this.saving;
    this.saving = this.saving.then(() => this.server.save({ ...fields, file: this.file }))
      .catch((error) => (error.message.startsWith("file is none") ? this.server.save(fields) : Promise.reject(error))) // TensorBoard was restarted
      .then(({ saved }) => { this.file = saved; this.changed(); }).catch((error) => this.say(`the game is not saved: ${error.message}`));
    return this.saving;
  }
}
