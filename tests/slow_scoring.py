"""Area and unconditional life of one game in plain Python: the oracle of `zerogo.scoring`."""

import itertools


def around_of(point, size):
    r, c = point
    return [(r + i, c + j) for i, j in ((0, 1), (1, 0), (0, -1), (-1, 0)) if 0 <= r + i < size and 0 <= c + j < size]


def slow_eye(grid, colour, row, column):
    """Returns whether an empty point is a colour's eye: all beside, and all corners but one (at the edge all)."""
    corners = [(row + i, column + j) for i in (-1, 1) for j in (-1, 1)]
    there = [(r, c) for r, c in corners if 0 <= r < len(grid) and 0 <= c < len(grid)]
    missing, beside = sum(grid[r][c] != colour for r, c in there), around_of((row, column), len(grid))
    is_around = grid[row][column] == 0 and all(grid[r][c] == colour for r, c in beside)
    return is_around and missing <= (len(beside) == 4)


def parts(grid, wanted):
    """Connected parts of the points whose colour is wanted: list of (points, neighbouring points not wanted)."""
    size, seen, found = len(grid), set(), []
    for start in itertools.product(range(size), repeat=2):
        if start in seen or not wanted(grid[start[0]][start[1]]):
            continue
        points, around, todo = {start}, set(), [start]
        while todo:
            for near in around_of(todo.pop(), size):
                if not wanted(grid[near[0]][near[1]]):
                    around.add(near)
                elif near not in points:
                    points.add(near)
                    todo.append(near)
        seen |= points
        found.append((points, around))
    return found


def benson(grid, colour, suicide):
    """Benson's algorithm as it is told, one game of plain lists; returns the living strings, their stones, all regions,
    and whether a region is vital to a string."""
    strings = [(p, a) for p, a in parts(grid, lambda c: c == colour)]
    regions = [(p, a) for p, a in parts(grid, lambda c: c != colour)]

    def is_vital(region, string):
        empty = {q for q in region[0] if grid[q[0]][q[1]] == 0}
        return bool(empty) and (region[0] if suicide else empty) <= string[1]

    live, healthy = list(strings), list(regions)
    while True:
        kept = [s for s in live if sum(is_vital(r, s) for r in healthy) >= 2]
        stones = {q for s in kept for q in s[0]}
        good = [r for r in healthy if r[1] <= stones]
        if len(kept) == len(live) and len(good) == len(healthy):
            break
        live, healthy = kept, good
    return live, stones, regions, is_vital


def slow_benson(grid, colour, suicide):
    """Returns the set of pass-alive points of a colour."""
    size, (live, stones, regions, is_vital) = len(grid), benson(grid, colour, suicide)
    area = set(stones)
    for points, around in regions:
        if not live or not around <= stones:
            continue
        hidden = [q for q in points if not any(n in stones for n in around_of(q, size))]
        if len(hidden) <= 1 or any(is_vital((points, around), s) for s in live):
            area |= points
    return area


def slow_area(grid):
    """Tromp-Taylor area by colour as two sets."""
    owned = {1: set(), 2: set()}
    for points, around in parts(grid, lambda c: c == 0):
        colours = {grid[r][c] for r, c in around}
        if len(colours) == 1:
            owned[colours.pop()] |= points
    for r, c in itertools.product(range(len(grid)), repeat=2):
        if grid[r][c]:
            owned[grid[r][c]].add((r, c))
    return owned


def katago_area(grid, suicide):
    """Area by colour as KataGo's networks see it: two sets. Black comes first; later owners replace earlier ones where
    a region is theirs, and take what nobody has elsewhere."""
    owner, size = {}, len(grid)
    for colour in (1, 2):
        _, stones, regions, _ = benson(grid, colour, suicide)
        owner |= dict.fromkeys(stones, colour)
        for points, around in regions if any(colour in row for row in grid) else []:
            hidden = [p for p in points if not any(grid[r][c] == colour for r, c in around_of(p, size))]
            is_empty = all(grid[r][c] == 0 for r, c in points)
            if around <= stones and (len(hidden) <= 1 or is_empty):
                owner |= dict.fromkeys(points, colour)
            elif is_empty:
                owner = dict.fromkeys(points, colour) | owner
    for r, c in itertools.product(range(size), repeat=2):
        if grid[r][c]:
            owner.setdefault((r, c), grid[r][c])
    return {colour: {point for point in owner if owner[point] == colour} for colour in (1, 2)}
