// Tests of page/played.js with a server that answers when the test says so; run by test_tab.py.

import assert from "node:assert/strict";
import test from "node:test";
import { PlayedGame, whyWrong } from "./played.js";

const other = (colour) => (colour === "b" ? "w" : "b");
const settle = async () => { for (let turn = 0; turn < 20; turn++) await null; };

// A server of which each question waits for answer(name, value), or for refuse(name, sentence).
class Server {
  constructor() { this.asked = []; this.saved = []; this.waiting = []; this.refusesSave = null; }
  ask(name, fields, each, signal) {
    this.asked.push(name);
    return new Promise((resolve, reject) => {
      this.waiting.push({ name, fields, each, resolve, reject });
      signal?.addEventListener("abort", () => reject(new Error("aborted")));
    });
  }
  move(position) { return this.ask("move", position); }
  genmove(fields, each, signal) { return this.ask("genmove", fields, each, signal); }
  score(fields, each, signal) { return this.ask("score", fields, each, signal); }
  async save(fields) {
    if (fields.file && this.refusesSave) throw new Error(this.refusesSave);
    this.saved.push(fields);
    return { saved: fields.file ?? `file ${this.saved.length}` };
  }
  next(name) {
    const place = this.waiting.findIndex((one) => one.name === name);
    assert.notEqual(place, -1, `nothing waits for ${name}`);
    return this.waiting.splice(place, 1)[0];
  }
  async answer(name, value) {
    const { fields, each, resolve } = this.next(name);
    if (name === "move") value ??= { stones: "0", next: other(fields.moves.at(-1)[0]), captures: [0, 0] };
    else each(value);
    resolve(value);
    await settle();
  }
  async refuse(name, sentence) { this.next(name).reject(new Error(sentence)); await settle(); }
}
const its = (action) => ({ action, searched: { winrate: 0.5, score: 1 } });
const counted = { dead: [3], result: "B+2.5", ownership: [] };

function begin({ mine = "b", kept } = {}) {
  const server = new Server(), said = [];
  const root = { stones: "0".repeat(25), next: "b", captures: [0, 0], start: { stones: "0".repeat(25), handicap: [], first: "b" } };
  const game = { size: 5, komi: 0.5, superko: "positional", suicide: false, scoring: "area", black: "you", white: "it", result: "?", nodes: [root] };
  const parts = { server, visits: () => 10, changed: () => {}, say: (sentence) => said.push(sentence) };
  const played = new PlayedGame(kept ?? { game, mine, network: "n.pt", run: "r" }, parts);
  return { server, said, played };
}
// Plays both sides' moves: mine, then the network's.
async function turn({ played, server }, mine, network) {
  played.play(mine);
  await server.answer("move");
  await server.answer("genmove", its(network));
  await server.answer("move");
}
const moves = (played) => played.position().moves.map(([colour, action]) => `${colour}${action}`).join(" ");

test("a double click sends one move", async () => {
  const { played, server, said } = begin();
  played.proceed();
  played.play(12);
  played.play(13);
  assert.deepEqual([server.asked, said], [["move"], ["your move is on its way"]]);
  await server.answer("move");
  played.play(14);
  assert.deepEqual(server.asked, ["move", "genmove"]);
  assert.match(said[1], /network is thinking/);
});

test("a move that is refused leaves the turn with the person", async () => {
  const { played, server, said } = begin();
  played.proceed();
  played.play(12);
  await server.refuse("move", "it is occupied");
  assert.deepEqual([played.state, said, played.tip], ["yours", ["it is occupied"], 0]);
});

test("the network's move comes into the game whatever the page shows, and each turn is saved into one file", async () => {
  const all = begin();
  all.played.proceed();
  await turn(all, 12, 6);
  await turn(all, 13, 7);
  assert.equal(moves(all.played), "b12 w6 b13 w7");
  assert.match(all.played.words, /^Its move: 50 % for it, B\+1.0. Your move.$/);
  assert.deepEqual(all.server.saved.map(({ file, position }) => [file, position.moves.length]), [[null, 2], ["file 1", 4]]);
  all.server.refusesSave = "file is none that this server has written";
  all.played.resign();
  await settle();
  assert.deepEqual([all.server.saved.at(-1).result, all.played.file, all.played.may("resign")], ["W+R", "file 3", false]);
});

test("undo gives the turn back, and the answer that comes too late is nobody's", async () => {
  const all = begin(), { played, server, said } = all;
  played.proceed();
  await turn(all, 12, 6);
  played.play(13);
  await server.answer("move");
  const late = server.next("genmove");
  played.undo();
  late.each(its(7));
  late.resolve();
  await settle();
  assert.deepEqual([moves(played), played.state, server.waiting], ["b12 w6", "yours", []]);
  played.undo();
  assert.deepEqual([moves(played), played.state, played.node.next], ["", "yours", "b"]);
  played.undo();
  assert.deepEqual(said, ["nothing has been played yet"]);
});

test("a person with White never plays Black's move", async () => {
  const { played, server } = begin({ mine: "w" });
  played.proceed();
  assert.equal(played.state, "thinking");
  played.play(3);
  await server.answer("genmove", its(12));
  await server.answer("move");
  assert.equal(moves(played), "b12");
  played.undo();
  assert.deepEqual([played.state, server.asked.filter((name) => name === "genmove").length], ["thinking", 2]);
  await server.refuse("genmove", "the process has ended");
  assert.deepEqual([played.state, played.may("think"), played.may("pass")], ["stuck", true, false]);
  played.meet("newest.pt", "newest@9"); // the run has pruned the network
  assert.deepEqual([played.network, played.game.black], ["newest.pt", "newest@9"]);
  played.think();
  await server.answer("genmove", { action: null });
  assert.deepEqual([played.state, played.game.result], ["over", "W+R"]);
});

test("two passes are counted, a click turns a string over, and to play on is the turn of whoever has it", async () => {
  const all = begin(), { played, server } = all;
  played.proceed();
  await turn(all, 25, 25);
  assert.equal(played.state, "counting");
  await server.answer("score", counted);
  assert.deepEqual([played.state, played.dead, played.may("undo"), played.may("pass")], ["counted", [3], true, false]);
  played.play(4);
  assert.deepEqual([server.waiting[0].fields.dead, server.waiting[0].fields.toggle], [[3], 4]);
  await server.refuse("score", "no");
  assert.deepEqual([played.state, played.dead], ["counted", [3]]);
  played.playOn();
  assert.deepEqual([played.state, played.dead], ["yours", null]);
  played.play(12);
  await server.answer("move");
  assert.equal(server.waiting[0].name, "genmove");
  await server.answer("genmove", its(25));
  await server.answer("move");
  played.count();
  await server.answer("score", counted);
  played.agree();
  await settle();
  assert.deepEqual([played.state, played.game.result, server.saved.at(-1).result], ["over", "B+2.5", "B+2.5"]);
});

test("a reload restores the game in every state", async () => {
  const all = begin();
  all.played.proceed();
  await turn(all, 12, 6);
  const again = (one) => begin({ kept: JSON.parse(JSON.stringify(one.played)) });
  const yours = again(all);
  yours.played.resume();
  assert.deepEqual([yours.played.state, moves(yours.played), yours.played.file], ["yours", "b12 w6", "file 1"]);
  yours.played.play(13);
  await yours.server.answer("move");
  const thinking = again(yours);
  thinking.played.resume();
  assert.deepEqual([thinking.played.state, thinking.server.asked], ["thinking", ["genmove"]]);
  await thinking.server.answer("genmove", its(25));
  await thinking.server.answer("move");
  thinking.played.count();
  await thinking.server.answer("score", counted);
  const judged = again(thinking);
  judged.played.resume();
  assert.deepEqual([judged.played.state, judged.played.dead, judged.played.counted], ["counted", [3], "B+2.5"]);
  judged.played.undo();
  assert.equal(moves(judged.played), "b12 w6");
});

test("whatever is done in whatever order, colours alternate and the person moves the person's stones", async () => {
  let seed = 7;
  const draw = (number) => (seed = (seed * 48271) % 2147483647) % number;
  for (const mine of ["b", "w"]) {
    const { played, server } = begin({ mine });
    played.proceed();
    for (let step = 0; step < 2000; step++) {
      const act = ["play", "play", "undo", "count", "agree", "playOn", "think", "answer", "answer", "answer"][draw(10)];
      const wasMine = played.isMine, { tip } = played;
      if (act === "answer" && server.waiting.length) {
        const { name } = server.waiting[draw(server.waiting.length)];
        if (draw(5) === 0) await server.refuse(name, "no");
        else await server.answer(name, name === "move" ? undefined : name === "score" ? counted : its(draw(26)));
      } else if (act === "play") { played.play(draw(26)); await settle(); } else if (act !== "answer" && played.may(act)) { played[act](); await settle(); }
      assert.ok(played.tip <= tip + 1 && (act !== "play" || played.tip === tip || wasMine));
      const colours = played.position().moves.map(([colour]) => colour).join("");
      assert.match(colours, /^(bw)*b?$/);
      if (played.state === "yours") assert.ok(played.isMine);
    }
  }
});

test("a number that no game has is refused where it is entered", () => {
  assert.match(whyWrong("komi", "99999"), /^komi is 99999; allowed are half points from -1000 to 1000$/);
  assert.match(whyWrong("komi", "6.3"), /half points/);
  assert.match(whyWrong("visits", "0"), /whole numbers from 1 to 10000/);
  for (const [name, text] of [["komi", ""], ["komi", "-7.5"], ["visits", "10000"], ["handicap", "0"], ["size", "25"]]) assert.equal(whyWrong(name, text), "");
});
