// Charts: the winrate and the score of a game, and numbers over training steps with intervals.

import { svg } from "./api.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [600, 150, 34, 34, 8, 18];

const path = (points) => points.reduce((text, [x, y], index) =>
  x == null ? text : `${text}${index && points[index - 1][0] != null ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`, "");

// winrates, scores: of Black by move, null where unknown. at: the move that is shown. onmove(move): a click.
export function gameChart({ winrates, scores, at, onmove }) {
  const last = Math.max(1, winrates.length - 1, scores.length - 1);
  const x = (move) => LEFT + ((WIDTH - LEFT - RIGHT) * move) / last;
  const y = (share) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
  const most = Math.max(5, ...scores.filter((score) => score != null).map(Math.abs));
  const spots = (values, share) => values.map((value, move) => (value == null ? [null] : [x(move), y(share(value))]));
  const has = (values) => values.some((value) => value != null);
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((one) => last / one <= 8) ?? 1000;
  const ticks = Array.from({ length: Math.floor(last / step) + 1 }, (_, index) => index * step);
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img",
    "aria-label": "winrate and score of Black over the moves" },
    svg("rect", { x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM, class: "ground" }),
    [0, 0.25, 0.5, 0.75, 1].map((share) => [
      svg("path", { d: `M${LEFT} ${y(share)}H${WIDTH - RIGHT}`, class: share === 0.5 ? "middle" : "rule" }),
      svg("text", { x: LEFT - 4, y: y(share) + 4, class: "end" }, `${100 * share}`),
      has(scores) && svg("text", { x: WIDTH - RIGHT + 4, y: y(share) + 4, class: "score" }, `${Math.round((2 * share - 1) * most)}`),
    ]),
    ticks.map((move) => svg("text", { x: x(move), y: HEIGHT - 4, class: "centre" }, `${move}`)),
    has(scores) && svg("path", { d: path(spots(scores, (score) => 0.5 + score / most / 2)), class: "score-curve" }),
    has(winrates) && svg("path", { d: path(spots(winrates, (share) => share)), class: "curve" }),
    svg("path", { d: `M${x(at)} ${TOP}V${HEIGHT - BOTTOM}`, class: "at" }),
    winrates[at] != null && svg("circle", { cx: x(at), cy: y(winrates[at]), r: 4, class: "at" }));
  chart.addEventListener("click", (event) => {
    const box = chart.getBoundingClientRect();
    const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    onmove(Math.max(0, Math.min(last, Math.round(share * last))));
  });
  return chart;
}

// points: {x, y, low, high, label}. Draws them as a line with their intervals.
export function stepChart(points, name) {
  const drawn = points.filter((point) => point.y != null).sort((one, other) => one.x - other.x);
  const lows = drawn.map((point) => point.low ?? point.y), highs = drawn.map((point) => point.high ?? point.y);
  const [least, most] = [Math.min(...lows), Math.max(...highs)];
  const [first, last] = [Math.min(...drawn.map((point) => point.x)), Math.max(...drawn.map((point) => point.x))];
  const x = (value) => LEFT + 14 + ((WIDTH - LEFT - 28 - RIGHT) * (value - first)) / Math.max(1e-9, last - first);
  const y = (value) => TOP + 6 + ((HEIGHT - TOP - BOTTOM - 12) * (most - value)) / Math.max(1e-9, most - least);
  const round = (value) => (Math.abs(value) < 10 ? value.toPrecision(2) : value.toFixed(0));
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": name },
    svg("rect", { x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM, class: "ground" }),
    [least, (least + most) / 2, most].map((value) => [
      svg("path", { d: `M${LEFT} ${y(value)}H${WIDTH - RIGHT}`, class: "rule" }),
      svg("text", { x: LEFT - 4, y: y(value) + 4, class: "end" }, round(value))]),
    [first, last].map((value) => svg("text", { x: x(value), y: HEIGHT - 4, class: "centre" }, round(value))),
    drawn.map((point) => point.low != null && svg("path", { d: `M${x(point.x)} ${y(point.low)}V${y(point.high)}`, class: "interval" })),
    svg("path", { d: path(drawn.map((point) => [x(point.x), y(point.y)])), class: "curve" }),
    drawn.map((point) => svg("circle", { cx: x(point.x), cy: y(point.y), r: 3.5, class: "dot" }, svg("title", {}, point.label))));
}
