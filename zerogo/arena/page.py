"""The pieces of a report as HTML: one page that needs no other file, no script and no network. Whatever comes from
outside is escaped.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from urllib.parse import quote

import numpy as np

from zerogo import picture

STYLE = """
:root { --ink: #2a2620; --soft: #766e62; --line: #ded6c8; --paper: #fdfbf7; --card: #fff; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 1080px; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 36px 0 8px; border-bottom: 1px solid var(--line); }
h3 { font-size: 15px; margin: 20px 0 6px; color: var(--soft); font-weight: 600; } p { margin: 4px 0; }
.soft { color: var(--soft); } a { color: #1d5fb4; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 8px 0; background: var(--card); }
th, td { border-bottom: 1px solid var(--line); padding: 4px 12px; text-align: right; white-space: nowrap; }
th { font-weight: 600; color: var(--soft); font-size: 13px; } th:first-child, td:first-child, td.left, th.left { text-align: left; }
.columns { display: flex; flex-wrap: wrap; gap: 8px 40px; align-items: flex-start; }
.columns > div { max-width: 100%; } svg { max-width: 100%; }
.boards { display: flex; flex-wrap: wrap; gap: 14px; } figure { margin: 0; max-width: 260px; }
figure img { display: block; max-width: 100%; height: auto; border: 1px solid var(--line); }
figcaption { font-size: 12.5px; color: var(--soft); padding-top: 4px; } figcaption b { color: var(--ink); }
details { margin: 8px 0; } summary { cursor: pointer; color: #1d5fb4; }
.games { columns: 5 150px; font-size: 13px; margin: 6px 0; padding: 0; list-style: none; }
pre { background: var(--card); border: 1px solid var(--line); padding: 10px; overflow-x: auto; font-size: 12.5px; }
.bar { display: flex; height: 18px; width: 420px; max-width: 100%; border: 1px solid var(--line); margin: 6px 0; }
.bar div { font-size: 11px; line-height: 17px; text-align: center; overflow: hidden; }
svg text { font: 11px system-ui, "DejaVu Sans", sans-serif; fill: var(--soft); }
"""


def escaped(text: object) -> str:
    """Returns a text as it may stand anywhere in a page."""
    return html.escape(str(text), quote=True)


def page(title: str, body: str) -> str:
    """Returns a whole page; body: HTML."""
    head = f'<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escaped(title)}</title>'
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Returns a table; cells: HTML. left: columns that begin at the left, besides the first."""
    marks = [' class="left"' if column in left else "" for column in range(len(head))]
    top = "".join(f"<th{mark}>{cell}</th>" for cell, mark in zip(head, marks, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{cell}</td>" for cell, mark in zip(row, marks, strict=True)) + "</tr>\n"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>\n{body}</tbody></table></div>'


def link(path: str, text: str) -> str:
    """Returns a link to a file beside the page; path: with slashes, as it is on disk."""
    return f'<a href="{escaped(quote(path))}">{escaped(text)}</a>'


def figure(image: np.ndarray, caption: str, alt: str) -> str:
    """Returns a picture that lies inside the page; image: uint8 [height, width, 3]; caption: HTML."""
    data = base64.b64encode(picture.png(image)).decode()
    size = f'width="{image.shape[1]}" height="{image.shape[0]}"'
    return f'<figure><img {size} alt="{escaped(alt)}" src="data:image/png;base64,{data}"><figcaption>{caption}</figcaption></figure>'


def shares_bar(counts: Sequence[int], colours: Sequence[str], inks: Sequence[str]) -> str:
    """Returns a bar that is cut by counts, with the counts in it."""
    whole = max(1, sum(counts))
    parts = zip(counts, colours, inks, strict=True)
    cells = [
        f'<div style="width:{100 * n / whole:.3f}%;background:{colour};color:{ink}">{n}</div>'
        for n, colour, ink in parts
        if n
    ]
    return f'<div class="bar">{"".join(cells)}</div>'


def interval_svg(low: float, value: float, high: float, least: float, most: float, width: int = 240) -> str:
    """Returns an interval as a line with its value as a dot, on an axis from `least` to `most`."""
    span = max(1e-9, most - least)

    def x(at: float) -> float:
        return 6 + (width - 12) * (at - least) / span

    axis = f'<line x1="6" x2="{width - 6}" y1="9" y2="9" stroke="#ded6c8"/>'
    line = f'<line x1="{x(low):.1f}" x2="{x(high):.1f}" y1="9" y2="9" stroke="#97bead" stroke-width="4" stroke-linecap="round"/>'
    return f'<svg width="{width}" height="18" role="img">{axis}{line}<circle cx="{x(value):.1f}" cy="9" r="4.5" fill="#2f7d5b"/></svg>'


def histogram_svg(values: np.ndarray, label: str, width: int = 420, height: int = 120, bins: int = 21) -> str:
    """Returns how often values [K] lie where, as bars around zero: dark parts are above it, light ones below. Empty
    without values.
    """
    if not len(values):
        return ""
    end = max(1.0, float(np.abs(values).max()))
    edges = np.linspace(-end, end, bins + 1)
    highest = max(1, int(np.histogram(values, edges)[0].max()))
    each, top = (width - 20) / bins, height - 34
    floor = np.full(bins, 14.0 + top)
    bars = []
    for colour, part in (
        ("#2b2b2e", values[values > 0]),
        ("#8a8378", values[values == 0]),
        ("#c4bcad", values[values < 0]),
    ):
        for index, count in enumerate(np.histogram(part, edges)[0]):
            if count:
                tall = top * count / highest
                floor[index] -= tall
                place = f'x="{11 + index * each:.1f}" width="{each - 2:.1f}" y="{floor[index]:.1f}" height="{tall:.1f}"'
                words = f"{count} games, {edges[index]:+.1f} to {edges[index + 1]:+.1f} points"
                bars.append(f'<rect {place} fill="{colour}"><title>{words}</title></rect>')
    axis = f'<line x1="10" x2="{width - 10}" y1="{14 + top}" y2="{14 + top}" stroke="#766e62"/>'
    marks = [(10, f"W+{end:g}", "start"), (width / 2, label, "middle"), (width - 10, f"B+{end:g}", "end")]
    texts = "".join(
        f'<text x="{x}" y="{height - 5}" text-anchor="{anchor}">{escaped(text)}</text>' for x, text, anchor in marks
    )
    return f'<svg width="{width}" height="{height}" role="img">{"".join(bars)}{axis}{texts}</svg>'
