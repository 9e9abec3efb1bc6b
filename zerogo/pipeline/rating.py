"""The rating pool of a run: each checkpoint that is measured also meets earlier ones, the best and those that tell most
of its strength, and the file of the pool says how strong all are.

A gate, which `evaluation.gate` puts before self-play, goes by it. A run's newest averaged weights play until a first
checkpoint has been measured; from then on that one plays, until a later one gets at least this share of the points
against it, on all boards together, and takes its place. So has AlphaGo Zero done (55 % of 400 games) and KataGo (half
of 200); AlphaZero has no gate. Each match decides, however few its games are, where an SPRT of them seldom would: of
100 games an equal player gets 55 % in one match of five or six, and one that is refused is not asked again, as a later
one soon is. What is learned from, validated, exported and measured is always the newest network.

A checkpoint says in its counters which steps have played, the last of which plays, for actors and for matches. A run
reads that one's file at the change as it does on resume, and keeps it, so that both play the same bits. In which
iteration the results of matches come in, and with them a change, the clock decides: to the bit a run is the same as
another one in which they did in the same iterations, however often it was stopped."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from zerogo import checkpoint
from zerogo.arena import MatchSettings, cap_for, play_match, pool
from zerogo.arena.tournament import clock
from zerogo.checkpoint import Checkpoint
from zerogo.errors import InputError
from zerogo.pipeline.measures import Matches, elo_numbers
from zerogo.players.analyst import make_player
from zerogo.system import distributed

OF_GATE = "eval/gate_winrate"
VERDICTS = {
    "H1": "it is stronger than {} by an SPRT",
    "H0": "it is not stronger than {} by an SPRT",
    "continue": "an SPRT cannot tell yet whether it is stronger than {}",
}


def measure(matches: Matches, network: Checkpoint, path: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """Plays the checkpoint of a file against the opponents of the settings, and on boards where it has met any of them
    against earlier ones of its run; adds all to the run's pool, and yields lines and the charts' numbers by tag."""
    folder = path.parents[1]
    left_out: list[str] = []
    for _, line, result, numbers in matches.play(network, matches.settings.games, left_out.append):
        pool.add(folder / pool.FILE, result)
        yield line, numbers
    yield from ((f"  warning: {text}", {}) for text in left_out)
    game, settings = matches.game, matches.settings
    player, is_mixed = make_player(network, settings, matches.device, matches.dtype), bool(game.sizes)
    stem, steps = player.name.rpartition("@")[0], {_step(file): file for file in checkpoint.paths(folder)}
    earlier = {f"{stem}@{step}": file for step, file in steps.items() if step < network.step}
    players = [step for step in network.counters.get("players", ())[-1:] if step != network.step]
    plays = {f"{stem}@{step}": checkpoint.path_of(folder, step) for step in players}
    earlier, their_names = earlier | plays, set()  # a run that was renamed has checkpoints of its earlier name
    for size in game.all_sizes:
        where, area = (f"{size}x{size}, ", f"eval/{size}x{size}") if is_mixed else ("", "eval")
        # Without those of a measurement that was interrupted, so that it comes out the same.
        met = [one for one in pool.read(folder / pool.FILE) if one.player != player.name or one.opponent not in earlier]
        order = list(plays)
        if any(player.name in meeting[:2] and meeting.size == size for meeting in met):
            telling = pool.most_telling(met, size, player.name, list(earlier), settings.games)
            order += [*pool.strongest(met, size, telling), *telling]
        for name in list(dict.fromkeys(order))[: max(settings.earlier_opponents, len(plays))]:
            try:
                other = make_player(checkpoint.load(earlier[name]), settings, matches.device, matches.dtype)
            except InputError as error:  # it may have been removed meanwhile
                yield f"  {where}warning: no match against {name}: {error}", {}
                continue
            their_names |= {other.name} if name in plays else set()
            cap, rules, plies = cap_for(game, [other], size), game.rules(size=size), settings.opening_plies
            games = MatchSettings(rules, settings.games, matches.seed, True, plies, cap, matches.device)
            result = play_match(player, other, replace(games, at_once=matches.at_once))
            pool.add(folder / pool.FILE, result)
            yield f"  {where}{result.lines()[0]}, until {clock(time.time())}", {}
        yield from _standing(folder, size, player.name, list(earlier), where, area)
    met = [one for one in pool.read(folder / pool.FILE) if one.player == player.name and one.opponent in their_names]
    if games := sum(one.games for one in met):
        rate = sum(one.points for one in met) / games
        yield f"  {100 * rate:.1f} % of the points against {met[0].opponent}, which plays self-play", {OF_GATE: rate}


def _standing(
    folder: Path, size: int, name: str, earlier: list[str], where: str, area: str
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields what the pool says of a player: its rating, and the verdict against the best of the earlier ones."""
    met = pool.read(folder / pool.FILE)
    if numbers := elo_numbers(met, size, name, area):
        yield "  {}Elo {:.0f} ({:.0f} to {:.0f})".format(where, *numbers.values()), numbers
    for best in pool.strongest(met, size, earlier):
        if any({name, best} == {*meeting[:2]} and meeting.size == size for meeting in met):
            sprt = pool.verdict(met, size, name, best)
            games = sum(one.games for one in met if one.size == size and {name, best} == {one.player, one.opponent})
            sentence = VERDICTS[sprt.verdict].format(best)
            yield f"  {where}{sentence} ({games} games against it)", {f"{area}/sprt_llr": sprt.llr}


def apply_gate(
    players: list[int], step: int, shown: dict[str, float] | None, least: float, note: Callable[[str], None]
) -> list[int]:
    """Returns the steps that have played, now that the matches of a step have shown these numbers, None where there are
    no new ones. least: the gate, 0 for none. Who had nobody to meet, as the player's file is gone, plays."""
    if not least or shown is None or shown.get(OF_GATE, 1.0) < least or step in players[-1:]:
        return players
    note(f"step {step} plays self-play from now on")
    return [*players, step]


def load_player(folder: Path, players: list[int], note: Callable[[str], None]) -> Checkpoint | None:
    """Returns the checkpoint of the last of these steps of a run, on all ranks; None, for the newest weights, where
    there are none, or it does not load, which is said: then the steps go from the list, too."""
    if not players:
        return None
    try:
        return distributed.run_and_sync_errors(checkpoint.load, checkpoint.path_of(folder, players[-1]))
    except InputError as error:
        what = f"step {players[-1]} cannot be loaded, so the newest weights play until the next matches"
        note(f"warning: {what}: {error}")
        players.clear()
        return None


def _step(path: Path) -> int:
    return int(checkpoint.NAME.fullmatch(path.name)[1])


def best_steps(folder: Path, size: int) -> list[int]:
    """Returns the step of the run's checkpoint that is rated highest on a board, none before any match there."""
    met, steps = pool.read(folder / pool.FILE), {str(_step(file)) for file in checkpoint.paths(folder)}
    names = [meeting.player for meeting in met if meeting.player.rpartition("@")[2] in steps]
    return [int(name.rpartition("@")[2]) for name in pool.strongest(met, size, names)]
