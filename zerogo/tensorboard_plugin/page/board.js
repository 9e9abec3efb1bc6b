// A board as SVG, and what is thought of it. Colours and conventions are those of zerogo.show.picture: what depends on
// numbers (tints of moves and of the policy) comes with them from the server, the rest stands in style.css.

import { percent, short, svg } from "./api.js";

const CELL = 40;
let number = 0; // of boards so far: gradients have names of their own

export class Board {
  // onplay(point): a click. onpoint(point or null): what the pointer is over. onwheel(+1 or -1).
  constructor({ onplay, onpoint, onwheel, label = "Go board" } = {}) {
    this.id = `go${number++}`;
    this.element = svg("svg", { class: "board", role: "img", "aria-label": label });
    const at = (event) => this.pointAt(event);
    if (onplay) this.element.addEventListener("click", (event) => at(event) != null && onplay(at(event)));
    if (onpoint) {
      this.element.addEventListener("pointermove", (event) => onpoint(at(event)));
      this.element.addEventListener("pointerleave", () => onpoint(null));
    }
    if (onwheel) {
      this.element.addEventListener("wheel", (event) => {
        event.preventDefault();
        if (event.deltaY) onwheel(Math.sign(event.deltaY));
      }, { passive: false });
    }
  }
  pointAt(event) {
    const box = this.element.getBoundingClientRect();
    const [column, row] = [event.clientX - box.left, event.clientY - box.top].map((pixels) =>
      Math.round((pixels / box.width) * (this.size + 1) - 1));
    return column >= 0 && row >= 0 && column < this.size && row < this.size ? row * this.size + column : null;
  }
  spot(point) {
    return { x: ((point % this.size) + 1) * CELL, y: (Math.floor(point / this.size) + 1) * CELL };
  }

  // view: {size, columns, stars, stones, last, policy, tints, candidates, ownership, line, dead, plain}
  draw(view) {
    this.size = view.size;
    const side = (view.size + 1) * CELL;
    this.element.setAttribute("viewBox", `0 0 ${side} ${side}`);
    this.element.setAttribute("style", `max-width: ${70 * (view.size + 1)}px`);
    const parts = [this.gradients(), svg("rect", { width: side, height: side, class: "wood" }), this.grid(view)];
    if (view.policy) parts.push(this.policy(view));
    parts.push(...Array.from(view.stones, (colour, point) => (colour === "0" ? null : this.stone(point, colour))));
    if (view.line) parts.push(...this.line(view));
    if (view.candidates) parts.push(...this.candidates(view.candidates));
    if (view.ownership) parts.push(...this.ownership(view));
    for (const point of view.dead ?? []) parts.push(this.cross(point, view.stones[point]));
    if (view.last != null && view.last < view.size ** 2 && !view.dead) {
      const { x, y } = this.spot(view.last);
      parts.push(svg("circle", { cx: x, cy: y, r: 0.25 * CELL, class: "last" }));
    }
    this.element.replaceChildren(...parts.filter(Boolean));
  }
  gradients() {
    const stops = (name, edge) => svg("radialGradient", { id: `${this.id}${name}`, cx: "35%", cy: "30%", r: "75%" },
      svg("stop", { offset: "0%", class: `${name}-light` }), svg("stop", { offset: edge, class: `${name}-dark` }));
    return svg("defs", {}, stops("black", "60%"), stops("white", "100%"));
  }
  grid({ size, columns, stars, plain }) {
    const [first, last] = [CELL, size * CELL];
    const lines = Array.from({ length: size }, (_, i) => `M${first} ${(i + 1) * CELL}H${last}M${(i + 1) * CELL} ${first}V${last}`);
    const words = plain ? [] : Array.from({ length: size }, (_, i) => [0.3, size + 0.7].map((margin) => [
      [(i + 1) * CELL, margin * CELL, columns[i]], [margin * CELL, (i + 1) * CELL, size - i],
    ])).flat(2);
    return svg("g", {}, svg("path", { d: lines.join(""), class: "lines" }),
      stars.map((point) => svg("circle", { cx: this.spot(point).x, cy: this.spot(point).y, r: 4, class: "star" })),
      words.map(([x, y, text]) => svg("text", { x, y, class: "coordinate" }, `${text}`)));
  }
  stone(point, colour, opacity = 1) {
    const { x, y } = this.spot(point);
    const name = colour === "1" || colour === "b" ? "black" : "white";
    return svg("g", { opacity }, svg("circle", { cx: x + 1.5, cy: y + 2.5, r: 0.475 * CELL, class: "shadow" }),
      svg("circle", { cx: x, cy: y, r: 0.475 * CELL, fill: `url(#${this.id}${name})`, class: `${name}-stone` }));
  }
  text(point, words, { size = 0.4, dy = 0, ink = "" } = {}) {
    const { x, y } = this.spot(point);
    return svg("text", { x, y: y + dy * CELL, "font-size": size * CELL, class: `on-point ${ink}` }, words);
  }
  policy({ policy, tints, stones, size }) {
    const half = 0.46 * CELL;
    return svg("g", {}, policy.slice(0, size ** 2).map((share, point) => {
      if (stones[point] !== "0" || share < 0.001) return null;
      const { x, y } = this.spot(point);
      return [svg("rect", { x: x - half, y: y - half, width: 2 * half, height: 2 * half, rx: 5, fill: tints[point] }),
        share >= 0.01 && this.text(point, (100 * share).toFixed(0), { ink: share > 0.2 ? "light" : "" })];
    }));
  }
  candidates(moves) {
    const most = Math.max(1, ...moves.map((move) => move.visits));
    return moves.map((move, rank) => {
      if (move.action >= this.size ** 2) return null;
      const { x, y } = this.spot(move.action);
      if (rank >= 12) return svg("circle", { cx: x, cy: y, r: 0.16 * CELL, fill: move.tint });
      const strength = 0.55 + 0.45 * Math.sqrt(move.visits / most);
      return svg("g", { class: "candidate", "data-action": move.action },
        svg("circle", { cx: x, cy: y, r: 0.47 * CELL, class: "wood" }),
        svg("circle", { cx: x, cy: y, r: 0.47 * CELL, fill: move.tint, "fill-opacity": strength, class: rank ? "edge" : "best" }),
        this.text(move.action, (100 * move.winrate).toFixed(0), { size: 0.36, dy: -0.13 }),
        this.text(move.action, short(move.visits), { size: 0.27, dy: 0.22 }));
    }).reverse();
  }
  ownership({ ownership, stones }) {
    return ownership.map((owned, point) => {
      const half = (stones[point] === "0" ? 0.36 : 0.24) * CELL * Math.sqrt(Math.min(1, Math.abs(owned)));
      if (half < 0.5 || stones[point] === (owned > 0 ? "1" : "2")) return null;
      const { x, y } = this.spot(point);
      const place = { x: x - half, y: y - half, width: 2 * half, height: 2 * half, rx: 0.2 * half };
      return svg("rect", { ...place, class: owned > 0 ? "owned-black" : "owned-white" });
    });
  }

  // The moves to come, as pale stones with numbers; of several on one point the first.
  line({ line, stones, size }) {
    const taken = new Set();
    return line.map(([colour, point], index) => {
      if (point >= size ** 2 || stones[point] !== "0" || taken.has(point)) return null;
      taken.add(point);
      const ink = colour === "b" ? "light" : "";
      return [this.stone(point, colour, 0.8), this.text(point, `${index + 1}`, { size: 0.42, ink })];
    }).flat();
  }
  cross(point, colour) {
    const { x, y } = this.spot(point);
    const d = 0.2 * CELL;
    const path = `M${x - d} ${y - d}L${x + d} ${y + d}M${x + d} ${y - d}L${x - d} ${y + d}`;
    return svg("path", { d: path, class: colour === "1" ? "dead light" : "dead" });
  }
}

// One plane of features: blue where positive, red where negative, small stones to see where one is.
export function planeOf(values, size, stones, name) {
  const most = Math.max(1, ...values.map(Math.abs));
  const squares = values.map((value, point) => {
    const place = { x: point % size, y: Math.floor(point / size), width: 1, height: 1 };
    return value && svg("rect", { ...place, class: value > 0 ? "positive" : "negative", opacity: Math.abs(value) / most });
  });
  const dots = Array.from(stones, (colour, point) => colour !== "0" && svg("circle", {
    cx: (point % size) + 0.5, cy: Math.floor(point / size) + 0.5, r: 0.2, class: colour === "1" ? "dot-black" : "dot-white",
  }));
  const title = svg("title", {}, `${name}; largest ${most}`);
  return svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "plane", role: "img", "aria-label": name }, title,
    svg("rect", { width: size, height: size, class: "nothing" }), squares.filter(Boolean), dots);
}

export const winrateText = (seen, next) =>
  `Black wins ${percent(seen.winrate, 1)}, White ${percent(1 - seen.winrate, 1)}; ${next === "b" ? "Black" : "White"} to move`;
