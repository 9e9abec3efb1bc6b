"""A plain recursive ladder reader over `game.Board`, written from the definition alone: the oracle of
`features.readings.Ladders`."""

from zerogo.game import Board, Colour, Point, String, _ko_point, all_points, neighbours


class TooLong(Exception):
    """The reading grew beyond its bound."""


class Reader:
    """Reads ladders with at most so many nodes, or KataGo's ladders."""

    def __init__(self, most_nodes: int = 20000, as_katago: bool = False) -> None:
        self.left, self.as_katago = most_nodes, as_katago

    def attack(self, board: Board, stone: Point, banned: Point | None) -> bool:
        """Returns whether the attacker, to move, catches the string of a stone."""
        string = board.string_at(stone)
        if len(string.liberties) != 2:
            return len(string.liberties) < 2
        if self.as_katago and is_double_ko(board, string):
            return True
        return any(self.attack_at(board, stone, move, banned) for move in string.liberties)

    def attack_at(
        self, board: Board, stone: Point, move: Point, banned: Point | None = None, is_first: bool = False
    ) -> bool:
        """Returns whether the attacker's move catches the string."""
        self.left -= 1
        if self.left < 0:
            raise TooLong
        attacker = board.colour_at(stone).other
        removed = board.removed_by(attacker, move)
        if move in removed or move == banned:
            return False
        after = board.after(attacker, move)
        opens_ko = _ko_point(after, move, removed) is not None and not (is_first and self.as_katago)
        return not opens_ko and not self.saving(after, stone, find_all=False)

    def saving(self, board: Board, stone: Point, find_all: bool = True) -> set[Point]:
        """Returns the defender's moves that save the string in atari."""
        string = board.string_at(stone)
        around = {board.string_at(near) for one in string.stones for near in neighbours(one, board.size)}
        around -= {None, string}
        moves = set(string.liberties)
        for enemy in around:
            if enemy.colour is not string.colour and len(enemy.liberties) == 1:
                moves |= enemy.liberties
        found = set()
        for move in sorted(moves):
            self.left -= 1
            if self.left < 0:
                raise TooLong
            removed = board.removed_by(string.colour, move)
            if move in removed:
                continue
            after = board.after(string.colour, move)
            number = len(after.string_at(stone).liberties)
            if number >= 3 or (number == 2 and not self.attack(after, stone, _ko_point(after, move, removed))):
                found.add(move)
                if not find_all:
                    break
        return found


def is_double_ko(board: Board, string: String) -> bool:
    """Returns whether the attacker of a string with two liberties wins by two kos."""
    for move in string.liberties:
        around = [board.string_at(near) for near in neighbours(move, board.size)]
        if any(near is None or near.colour is not string.colour for near in around):
            return False
        weak = [near for near in around if len(near.liberties) == 1]
        if len(weak) != 1 or len(weak[0].stones) != 1:
            return False
        if len(board.after(string.colour, move).string_at(move).liberties) > 2:
            return False
    beside = {board.string_at(near) for stone in string.stones for near in neighbours(stone, board.size)} - {None}
    return not any(near.colour is not string.colour and len(near.liberties) == 1 for near in beside)


def read_all(
    board: Board, most_nodes: int = 20000, as_katago: bool = False, ko: Point | None = None
) -> dict[Colour, tuple[set, set, set]]:
    """Returns for the strings of each player the points caught, catching and escaping, as `Ladders` has them, or those
    of KataGo where a ko bans a point; raises TooLong."""
    found = {}
    for player in Colour:
        caught, catching, escaping = set(), set(), set()
        for string in board.strings():
            if string.colour is not player:
                continue
            stone = min(string.stones)
            if len(string.liberties) == 1:
                saving = Reader(most_nodes, as_katago).saving(board, stone)
                escaping |= saving
                if not saving:
                    caught |= string.stones
            elif len(string.liberties) == 2:
                works = {
                    move
                    for move in string.liberties
                    if Reader(most_nodes, as_katago).attack_at(board, stone, move, ko, is_first=True)
                }
                catching |= works
                if works:
                    caught |= string.stones
        found[player] = (caught, catching, escaping)
    return found


def board_of(rows: list[list[int]]) -> Board:
    """Returns the board of rows of 0, 1, 2."""
    size = len(rows)
    stones = [(Colour(rows[p.row][p.column]), p) for p in all_points(size) if rows[p.row][p.column]]
    return Board.of_stones(size, stones)
