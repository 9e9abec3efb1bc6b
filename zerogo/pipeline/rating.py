"""The rating pool of a run: each checkpoint that is measured also meets earlier ones, the best and those that tell most
of its strength, and the file of the pool says how strong all are."""

from collections.abc import Iterator
from pathlib import Path

from zerogo import checkpoint
from zerogo.arena import cap_for, play_match, pool
from zerogo.checkpoint import Checkpoint
from zerogo.errors import InputError
from zerogo.pipeline.measures import Matches, elo_numbers
from zerogo.players.analyst import make_player

VERDICTS = {"H1": "is stronger", "H0": "is not stronger", "continue": "may be stronger, more games are needed"}


def measure(matches: Matches, network: Checkpoint, path: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """Plays the checkpoint of a file against the opponents of the settings, and on boards where it has met any of them
    against earlier ones of its run; adds all to the run's pool, and yields lines and the charts' numbers by tag."""
    folder = path.parents[1]
    left_out: list[str] = []
    for _, line, result, found in matches.play(network, matches.settings.games, left_out.append):
        pool.add(folder / pool.FILE, result)
        yield line, found
    yield from ((f"  warning: {text}", {}) for text in left_out)
    game, settings = matches.game, matches.settings
    player, is_mixed = make_player(network, settings, matches.device, matches.dtype), bool(game.sizes)
    stem, steps = player.name.rpartition("@")[0], {_step(file): file for file in checkpoint.paths(folder)}
    earlier = {f"{stem}@{step}": file for step, file in steps.items() if step < network.step}
    for size in game.all_sizes:
        where, area = (f"{size}x{size}, ", f"eval/{size}x{size}") if is_mixed else ("", "eval")
        # Without those of a measurement that was interrupted, so that it comes out the same.
        met = [one for one in pool.read(folder / pool.FILE) if one.player != player.name or one.opponent not in earlier]
        if not any(player.name in meeting[:2] and meeting.size == size for meeting in met):
            continue
        order = pool.most_telling(met, size, player.name, list(earlier), settings.games)
        order = dict.fromkeys([*pool.strongest(met, size, order), *order])
        for name in list(order)[: settings.earlier_opponents]:
            try:
                other = make_player(checkpoint.load(earlier[name]), settings, matches.device, matches.dtype)
            except InputError as error:  # it may have been removed meanwhile
                yield f"  {where}warning: no match against {name}: {error}", {}
                continue
            options = {"opening_plies": settings.opening_plies, "device": matches.device}
            cap, rules = cap_for(game, [other], size), game.rules(size=size)
            result = play_match(player, other, rules, settings.games, matches.seed, move_cap=cap, **options)
            pool.add(folder / pool.FILE, result)
            yield f"  {where}{result.lines()[0]}", {}
        yield from _standing(folder, size, player.name, list(earlier), where, area)


def _standing(
    folder: Path, size: int, name: str, earlier: list[str], where: str, area: str
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields what the pool says of a player: its rating, and the verdict against the best of the earlier ones."""
    met = pool.read(folder / pool.FILE)
    numbers = elo_numbers(met, size, name, area)
    yield "  {}Elo {:.0f} ({:.0f} to {:.0f})".format(where, *numbers.values()), numbers
    for best in pool.strongest(met, size, earlier):
        if any({name, best} == {*meeting[:2]} and meeting.size == size for meeting in met):
            found = pool.verdict(met, size, name, best)
            yield f"  {where}it {VERDICTS[found.verdict]} than {best}, by an SPRT", {f"{area}/sprt_llr": found.llr}


def _step(path: Path) -> int:
    return int(checkpoint.NAME.fullmatch(path.name)[1])


def best(folder: Path, size: int) -> list[int]:
    """Returns the step of the run's checkpoint that is rated highest on a board, none before any match there."""
    met, steps = pool.read(folder / pool.FILE), {str(_step(file)) for file in checkpoint.paths(folder)}
    names = [meeting.player for meeting in met if meeting.player.rpartition("@")[2] in steps]
    return [int(name.rpartition("@")[2]) for name in pool.strongest(met, size, names)]
