"""How clients read what an engine writes, each rewritten from its source, as strict as that."""

import re
from collections import namedtuple

VERTEX = r"(?:pass|[A-Za-z]\d+)"


def sabaki_ids(written: str) -> list[tuple[str, str]]:
    """Returns sign and content of each reply as @sabaki/gtp takes them apart: a reply ends at the first blank line."""
    found, content = [], ""
    for line in written.split("\n")[:-1]:
        if not content and (not line or line[0] not in "=?"):
            continue  # "ignore invalid line"
        content += line + "\n"
        if line == "":
            text = content.strip()
            number = re.match(r".(\d+)", text)
            found.append((text[0], text[1 + len(number[1] if number else "") :].strip()))
            content = ""
    return found


def sabaki_variations(line: str, size: int, sign: int) -> tuple[list[dict], list[float] | None]:
    """Returns the variations and the ownership of a line of analysis (Sabaki 0.60, enginesyncer.js): winrates in per
    cent.

    Without a decimal point a winrate is in ten-thousandths. A pv must end its segment; moves that are no vertices are
    dropped."""
    ownership = None
    if (match := re.search(r"ownership\s+(.+)", line)) is not None:
        numbers = [sign * float(text) for text in match[1].split()]
        line, ownership = line[: match.start()], numbers if len(numbers) == size * size else None
    variations = []
    for segment in re.split(r"\s*info\s+", line)[1:]:
        segment = segment.strip()
        pv = re.search(rf"{VERTEX}(\s+{VERTEX})*$", segment)
        if pv is None:
            continue
        words = segment[: pv.start()].split()[:-1]
        known = dict(zip(words[::2], words[1::2], strict=True))
        if re.fullmatch(r"[A-Za-z]\d+", known["move"]):
            rate = known["winrate"]
            winrate = float(rate) * 100 if "." in rate else int(rate) / 100
            score = float(known["scoreLead"]) if "scoreLead" in known else None
            moves = pv[0].split("pass")[0].split()
            numbers = {"visits": int(known["visits"]), "winrate": winrate, "score": score}
            variations.append({"move": known["move"], "pv": moves, **numbers})
    return variations, ownership


def lizzie_ids(written: str) -> list[int]:
    """Returns the numbers of the replies as Lizzie reads them: Integer.parseInt of what follows the sign, which must be
    there."""
    heads = [line for line in written.split("\n") if line.startswith(("=", "?"))]
    return [int(re.fullmatch(r"[=?](\d+)( .*)?", head)[1]) for head in heads]


def lizzie_version_is_fine(version: str) -> bool:
    """Says whether Lizzie accepts the engine: the second part of the version is 15 or more (it splits at dots, all
    before a space)."""
    parts = version.split(" ")[0].split(".")
    return len(parts) >= 2 and int(parts[1]) >= 15


def lizzie_moves(line: str) -> list[dict]:
    """Returns the moves of an lz-analyze line; every number goes through Integer.parseInt (MoveData.fromInfo)."""
    moves = []
    for segment in re.split(r"\s*info ", line)[1:]:
        known, _, pv = segment.partition(" pv ")
        words = known.split(" ")
        found = dict(zip(words[::2], words[1::2], strict=True)) | {"pv": pv.split(" ")}
        moves.append(found | {key: _integer(found[key]) for key in ("visits", "winrate", "order", "prior", "lcb")})
    return moves


def _integer(text: str) -> int:
    assert re.fullmatch(r"[+-]?\d+", text), f"Integer.parseInt({text!r})"
    return int(text)


def lizgoban_parts(line: str) -> tuple[list[dict], list[float] | None, dict]:
    """Returns suggestions, ownership and root info as LizGoban's parse_analyze reads them."""
    parts = re.split(r"\b(?=(?:ownership|ownershipStdev|rootInfo)\b)", line)
    known = {part.split(maxsplit=1)[0]: part.split(maxsplit=1)[1].strip() for part in parts[1:]}
    root = known.get("rootInfo", "").split()
    ownership = [float(text) for text in known["ownership"].split()] if "ownership" in known else None
    suggestions = [_lizgoban_suggestion(segment.strip()) for segment in parts[0].split("info")[1:]]
    suggestions.sort(key=lambda found: found["order"])
    return suggestions, ownership, dict(zip(root[::2], root[1::2], strict=True))


def _lizgoban_suggestion(segment: str) -> dict:
    """Returns one suggestion: pairs up to the first list, then lists, each with its name."""
    found: dict = {}
    for piece in re.split(r"\s*(?=\b(?:pv|pvVisits|pvEdgeVisits|movesOwnership)\b)", segment):
        words = piece.split()
        if words and words[0] in ("pv", "pvVisits", "pvEdgeVisits", "movesOwnership"):
            found[words[0]] = words[1:]
        elif words:
            found |= dict(zip(words[::2], words[1::2], strict=True))
    return found | {"order": int(found["order"]), "visits": int(found["visits"])}


def cgos_last_line(written: str) -> tuple[dict, str]:
    """Returns the sections of the last line before `play`, and the move, as the CGOS client keeps them: it knows info
    and ownership."""
    lines = written.rstrip("\n").split("\n")
    assert lines[-1].startswith("play ") and lines[-2].startswith("info ")
    infos, _, ownership = lines[-2].partition(" ownership ")
    sections = {"info": [part.split() for part in infos.split("info ")[1:]], "ownership": ownership.split()}
    return sections, lines[-1].removeprefix("play ")


AnalyzeCommand = namedtuple("AnalyzeCommand", "type label command")  # a line as GoGui splits it


def gogui_commands(content: str) -> list[AnalyzeCommand]:
    return [AnalyzeCommand(*(part.strip() for part in line.split("/", 2))) for line in content.strip().split("\n")]


def gogui_board(content: str, size: int) -> list[list[str]]:
    """Returns the board of a dboard, cboard, … reply: size x size words."""
    words = content.split()
    assert len(words) == size * size, f"{len(words)} words for a board of {size}x{size}"
    return [words[row * size : row * size + size] for row in range(size)]
