"""Games that become samples: positions as a replay has them, perspectives, what ends a game, draws by game number,
files; and how many games and leaves a run takes where that is left to the machine, with pretended speeds."""

import dataclasses
import json
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from string import ascii_uppercase

import pytest
import tiny
import torch
from boards import of_stones
from searches import replayed
from tables import tables

from zerogo import checkpoint, cli, config, kernels, scoring, selfplay, sgf, tuning
from zerogo.board import rng
from zerogo.board.flood import unpack_rows
from zerogo.board.rng import Purpose
from zerogo.config import Config
from zerogo.pipeline import limits, train
from zerogo.pipeline.actors import generate
from zerogo.rules import Rules
from zerogo.selfplay import EndReason, FinishedGame, SelfPlay, SelfPlayResult
from zerogo.selfplay.opening import random_games
from zerogo.selfplay.record import NEEDED, THRESHOLDS, Resignation, write_games
from zerogo.system import runtime

SCRIPTED = "search.algorithm=puct selfplay.full_simulations=1 selfplay.slots=1 selfplay.sgf_share=1".split()
TABLE = "game.size=5 game.move_cap=40 selfplay.sgf_share=1 selfplay.slots=6 selfplay.full_simulations=4".split()
PASS = 9  # on 3x3
BLACK_SETTLES = [4, PASS, 3, PASS, 5, PASS, PASS]  # after the fifth move a black chain between two eyes owns the board
WHITE_SETTLES = [PASS, 4, PASS, 3, PASS, 5, PASS, PASS]


def played(config: Config, evaluator: object, num_games: int, seed: int = 3) -> tuple[SelfPlay, SelfPlayResult]:
    selfplay = tiny.self_play(config, evaluator, seed)
    return selfplay, selfplay.play(num_games)


def scripted(*overrides: str) -> Config:
    """Returns settings under which `tiny.Script` plays its moves: without noise at the root."""
    config = tiny.config(*SCRIPTED, *overrides)
    return dataclasses.replace(
        config, search=dataclasses.replace(config.search, dirichlet_share=0.0, root_temperature=1.0)
    )


def table_games(*overrides: str, num_games: int = 20) -> tuple[SelfPlay, SelfPlayResult]:
    return played(tiny.config(*TABLE, *overrides), tiny.Table(), num_games)


@pytest.mark.parametrize("algorithm", ["gumbel", "puct"])
def test_samples_are_the_positions_of_the_games_with_their_history_and_policies_on_legal_moves(algorithm: str) -> None:
    _, collected = table_games(f"search.algorithm={algorithm}", num_games=8)
    samples, games = collected.all_samples(), {game.number: game for game in collected.games}
    assert Counter(samples.game.tolist()) == {number: len(game.moves) for number, game in games.items()}
    positions = {number: replayed(game.rules, game.moves) for number, game in games.items()}
    planes = unpack_rows(samples.rows.to(torch.int32)).to(torch.int8)
    stones = planes[:, :, 0] + 2 * planes[:, :, 1]  # [K, 8, N, N]
    for k in range(len(samples)):
        game, ply = games[int(samples.game[k])], int(samples.ply[k])
        states = positions[game.number]
        assert int(samples.to_play[k]) == states[ply].to_play.value
        for back in range(8):
            expected = torch.tensor(states[ply - back].stones()) if back <= ply else torch.zeros(5, 5)
            assert torch.equal(stones[k, back], expected.to(torch.int8)), f"game {game.number}, {back} before ply {ply}"
        assert samples.moves[k].tolist() == [game.moves[ply - 1 - j] if j < ply else -1 for j in range(5)]
        passes = 1 if ply and game.moves[ply - 1] == 25 else 0
        assert (int(samples.passes[k]), float(samples.komi[k])) == (passes, game.rules.komi)
        assert float(samples.root_value[k]) == pytest.approx(game.root_values[ply])
        assert int(samples.reply[k]) == (game.moves[ply + 1] if ply + 1 < len(game.moves) else -1)
        policy, legal = samples.policy[k].float(), {move.action(5) for move in states[ply].legal_moves()}
        assert {*policy.nonzero().flatten().tolist()} <= legal and float(policy.sum()) == pytest.approx(1, abs=2e-3)
    assert bool((samples.policy_weight == 1).all() & (samples.board_weight == 1).all())


@pytest.mark.parametrize("moves, komi, score_black", [(BLACK_SETTLES, 4.5, 4.5), (WHITE_SETTLES, -2.5, -6.5)])
def test_targets_have_the_view_of_the_side_to_move(moves: list, komi: float, score_black: float, monkeypatch) -> None:
    monkeypatch.setattr(selfplay, "SETTLED_END_SHARE", 1.0)
    owner = 1 if score_black > 0 else -1
    config = scripted(f"game.komi={komi}")
    _, collected = played(config, tiny.Script(moves), 1)
    samples = collected.all_samples()
    assert collected.games[0].moves == moves[:-2] and collected.ends == [EndReason.ALL_PASS_ALIVE]
    assert collected.scores_black == [score_black] and samples.ply.tolist() == list(range(len(moves) - 2))
    for k in range(len(samples)):
        sign = 1 if int(samples.to_play[k]) == 1 else -1
        assert int(samples.to_play[k]) == 1 + k % 2
        assert (float(samples.value[k]), float(samples.score[k])) == (owner * sign, score_black * sign)
        assert bool((samples.ownership[k] == owner * sign).all())
    assert [int(row.argmax()) for row in samples.policy] == moves[:-2]


def test_a_share_of_games_drawn_by_number_ends_when_all_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfplay, "SETTLED_END_SHARE", 0.6)
    _, collected = played(scripted("selfplay.slots=5"), tiny.Script(BLACK_SETTLES), 40)
    drawn = rng.uniform(rng.key(3, torch.arange(100), Purpose.SETTLED), 1).squeeze(1)
    for game in collected.games:
        settles = bool(drawn[game.number] < 0.6)
        assert (game.end, len(game.moves)) == ((EndReason.ALL_PASS_ALIVE, 5) if settles else (EndReason.PASSES, 7))
        assert game.moves == BLACK_SETTLES[: len(game.moves)] and game.score_black == 4.5
    assert 10 <= collected.ends.count(EndReason.ALL_PASS_ALIVE) <= 38


def test_games_that_are_not_ended_early_count_as_the_plain_board_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """At two passes and at the cap every stone lives, as in the search's tree."""
    monkeypatch.setattr(selfplay, "SETTLED_END_SHARE", 0.5)
    _, collected = table_games("selfplay.slots=32", num_games=90)
    differ = 0
    for game in collected.games:
        if game.end != EndReason.ALL_PASS_ALIVE:
            *_, end = replayed(game.rules, game.moves)
            assert end.score_black() == game.score_black, f"game {game.number}"
            differ += scoring.final_score_black(of_stones([end.stones()], game.rules)).item() != game.score_black
    assert differ > 0, "none of these games has dead stones on the board"
    assert set(collected.ends) == {EndReason.PASSES, EndReason.CAPPED, EndReason.ALL_PASS_ALIVE}


@pytest.mark.parametrize(("value_black", "loser_moves"), [(0.9, 1), (-0.9, 0)])
def test_the_side_that_resigns_loses_and_the_board_stays_unknown(value_black: float, loser_moves: int) -> None:
    """From ply 2 on the loser may resign; it does at its first turn."""
    winner_black = 1 if value_black > 0 else -1
    config = scripted("selfplay.resign_share=1", "selfplay.resign_min_ply=2", "game.komi=4.5")
    selfplay = tiny.self_play(config, tiny.Script([0, 8, 3, 7, 6, 5, 4], [value_black]), 3)
    selfplay.resignation.threshold = -0.5
    collected = selfplay.play(1)
    samples, game = collected.all_samples(), collected.games[0]
    assert (game.end, len(game.moves)) == (EndReason.RESIGNED, 3 + loser_moves) and game.score_black == winner_black
    for k in range(len(samples)):
        assert float(samples.value[k]) == winner_black * (1 if int(samples.to_play[k]) == 1 else -1)
    assert bool((samples.board_weight == 0).all())


def test_only_full_searches_are_learned_and_their_share_is_right() -> None:
    settings = ("selfplay.full_share=0.3", "selfplay.cheap_simulations=2", "game.move_cap=24")
    selfplay, collected = table_games(*settings, num_games=20)
    samples = collected.all_samples()
    found = set(zip(samples.game.tolist(), samples.ply.tolist(), strict=True))
    expected = set()
    for game in collected.games:
        ply = torch.arange(len(game.moves))
        drawn = rng.uniform(rng.key(3, torch.full_like(ply, game.number), ply, Purpose.BUDGET), 1).squeeze(1)
        expected |= {(game.number, k) for k in (drawn < 0.3).nonzero().squeeze(1).tolist()}
    assert found == expected and len(found) == len(samples)

    assert 2 < collected.simulations / collected.moves < 4
    assert selfplay.search_state.overflowed == 0


OVERRIDES = ["game.sizes=[[3, 1, 4.5], [5, 1, 0.5], [4, 1, 2]]"], ["selfplay.opening_plies=0.1", "game.komi=0"]


@pytest.mark.parametrize("overrides", [*OVERRIDES, ["game.move_cap=9"]])
def test_short_values_are_averages_of_root_values_and_the_result(overrides: list[str]) -> None:
    """Ply by ply, with cheap searches between the samples, as the side to move sees them."""
    _, collected = table_games("selfplay.full_share=0.5", "selfplay.cheap_simulations=2", *overrides, num_games=10)
    samples, games = collected.all_samples(), {game.number: game for game in collected.games}
    for number, ply, found in zip(samples.game.tolist(), samples.ply.tolist(), samples.short_values, strict=True):
        game = games[number]
        values_black = [value if k % 2 == 0 else -value for k, value in enumerate(game.root_values)]
        for q, short_value in zip((0.176, 0.056, 0.016), found.tolist(), strict=True):
            share, rest, average_black = 1 / (1 + game.rules.size**2 * q), 1.0, 0.0
            for value_black in values_black[ply:]:
                average_black, rest = average_black + rest * share * value_black, rest * (1 - share)
            average_black += rest * ((game.score_black > 0) - (game.score_black < 0))
            assert short_value == pytest.approx(average_black if ply % 2 == 0 else -average_black, abs=1e-3)  # float16


@pytest.mark.parametrize("algorithm", ["gumbel", "puct"])
def test_openings_are_drawn_from_the_prior_and_not_learned(algorithm: str) -> None:
    """The number of drawn plies has the mean that was asked for; what follows is searched, and learned."""
    overrides = f"search.algorithm={algorithm}", "selfplay.opening_plies=0.2", "selfplay.slots=32", "game.move_cap=20"
    _, collected = table_games(*overrides, "selfplay.full_simulations=2", num_games=200)
    samples = collected.all_samples()
    first = torch.full((int(samples.game.max()) + 1,), 99).scatter_reduce(0, samples.game, samples.ply.long(), "amin")
    assert 4 < float(first[first < 99].to(torch.float32).mean()) < 5  # of an exponential of mean 5, rounded down: 4.5
    assert collected.simulations < 1.8 * collected.moves  # drawn moves are not searched
    assert len({tuple(game.moves[:4]) for game in collected.games}) > 0.9 * len(collected.games)
    for game in collected.games:  # each ply from the first learned one on is learned
        plies_of = samples.ply[samples.game == game.number].tolist()
        assert plies_of == list(range(len(game.moves) - len(plies_of), len(game.moves)))


def test_games_go_on_with_the_schedules_next_number_of_simulations() -> None:
    config = tiny.config(*TABLE, "selfplay.simulations_schedule=[[0, 2], [0.5, 9]]", "search.keep_tree=false")
    selfplay = tiny.self_play(config, tiny.Table(), 3)
    assert selfplay.play(4).simulations / selfplay.states.num_games > 2 and selfplay.budgets == (2, 2)
    numbers, plies = selfplay.drawn.number.tolist(), selfplay.states.ply.clone()
    selfplay.set_progress(0.5)
    assert selfplay.drawn.number.tolist() == numbers and torch.equal(selfplay.states.ply, plies)
    assert selfplay.search_state.budget.tolist() == [2] * 6  # searches under way keep theirs
    later = selfplay.play(6)
    assert selfplay.search_state.budget.tolist() == [9] * 6 and selfplay.search_state.overflowed == 0
    assert 8 < later.simulations / later.moves < 10


@pytest.mark.parametrize(("way", "number"), [("kernels", 16), ("torch", 2)])
@pytest.mark.parametrize("algorithm", ["puct", "gumbel"])
def test_same_seeds_same_games_move_for_move(algorithm: str, way: str, number: int) -> None:
    """As before the search was rewritten: games-5x5.json has a letter a move, Z for a pass. Slow torch plays a few."""
    words = "game.size=5 game.komi=24.5 game.move_cap=40 search.leaves=1 search.max_considered=8 selfplay.sgf_share=1"
    words += " selfplay.full_simulations=16 selfplay.cheap_simulations=6 selfplay.full_share=0.6"
    settings = tiny.config(f"search.algorithm={algorithm}", "selfplay.slots=16", *words.split())
    expected = json.loads((Path(__file__).parent / "data" / "games-5x5.json").read_text())[algorithm]
    with kernels.plain() if way == "torch" else nullcontext():
        games = tiny.self_play(settings, tiny.Table(), 7).play(number).games
    found = {str(game.number): "".join(ascii_uppercase[move] for move in game.moves) for game in games}
    assert len(found) >= number and found == {game: expected[game] for game in found}


def test_two_leaves_a_step_hardly_change_a_search_of_four_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are under different moves. Games near their end, with fewer moves, take more steps; the others move on."""
    words, numbers, move = "search.max_considered=4 selfplay.full_simulations=8 selfplay.slots=16", [], SelfPlay._move
    monkeypatch.setattr(SelfPlay, "_move", lambda self, games, to: numbers.append(len(games)) or move(self, games, to))
    one, two = (
        {game.number: game.moves for game in table_games(*words.split(), *more, num_games=40)[1].games}
        for more in (["search.keep_tree=false", f"search.leaves={leaves}"] for leaves in (1, 2))
    )
    same = [one[number] == two[number] for number in one.keys() & two.keys()]
    assert len(same) > 32 and sum(same) > 0.9 * len(same) and 8 <= min(numbers) < 16


def test_a_few_games_wait_with_their_moves_only_for_others_that_soon_follow() -> None:
    playing = table_games("selfplay.full_simulations=20", num_games=0)[0]
    playing.search_state.done[0] = 20
    assert playing._due().tolist() == [0], "the others need 20 more"
    playing.search_state.done[1] = 15
    assert not len(playing._due())


def test_random_games_teach_no_policy() -> None:
    config = tiny.config("game.size=5", "game.move_cap=60")
    collected = random_games(config.game, 30, seed=4, first_game=100, device=tiny.CPU)
    samples = collected.all_samples()
    assert bool((samples.policy_weight == 0).all()) and bool((samples.network_step == 0).all())
    assert sorted(set(samples.game.tolist())) == list(range(100, 130))
    assert len(samples) == sum(collected.lengths) == collected.moves
    sign = torch.where(samples.to_play == 1, 1.0, -1.0)
    scores = dict(zip(range(100, 130), collected.scores_black, strict=True))
    assert (samples.score * sign).tolist() == [scores[number] for number in samples.game.tolist()]
    assert torch.equal(samples.value, torch.sign(samples.score))
    assert set(collected.ends) <= {EndReason.PASSES, EndReason.CAPPED}
    again = random_games(config.game, 3, seed=4, first_game=105, device=tiny.CPU).all_samples()
    assert torch.equal(again.rows[again.game == 106], samples.rows[samples.game == 106])


@pytest.mark.parametrize("allowed", [0.02, 0.05, 0.2, 0.5])
def test_the_threshold_is_the_boldest_that_the_games_allow(allowed: float) -> None:
    drawn = rng.uniform(rng.key(int(1000 * allowed), torch.arange(400)), 2).tolist()
    resignation, games = Resignation(allowed), [(1 - 1.8 * a, 0.2 - 1.2 * b) for a, b in drawn]
    for winner, loser in games:
        resignation.games.append((winner, loser))
    resignation.update()
    shares = {}
    for threshold in THRESHOLDS:
        by_winner = sum(winner < threshold for winner, _ in games)
        by_any = sum(min(pair) < threshold for pair in games)
        shares[threshold] = by_winner / by_any if by_any else 0.0
    fitting = [threshold for threshold, share in shares.items() if share <= allowed]
    assert resignation.threshold == (max(fitting) if fitting else -2.0)
    assert resignation.measured == (shares[max(fitting)] if fitting else 0.0)


def test_nobody_resigns_before_enough_games_were_played_out() -> None:
    resignation = Resignation(0.05)
    for _ in range(NEEDED - 1):
        resignation.games.append((0.5, -0.9))
    resignation.update()
    assert resignation.threshold == -2.0
    resignation.games.append((0.5, -0.9))
    resignation.update()
    assert resignation.threshold == THRESHOLDS[0]
    for _ in range(NEEDED):
        resignation.games.append((-0.98, -0.99))  # now half of all resignations would have been won
    resumed = Resignation(0.05)  # within an iteration, whose games count from the next one on
    resumed.load_state_dict(resignation.state_dict())
    assert resumed.threshold == THRESHOLDS[0] and resumed.games == resignation.games
    resignation.update()
    assert resignation.threshold < -0.97 and resignation.measured <= 0.05


def test_only_games_in_which_nobody_may_resign_are_learned_from() -> None:
    settings = ("selfplay.resign_share=0.6", "selfplay.resign_min_ply=3", "game.komi=0")
    selfplay, collected = table_games(*settings, num_games=24)
    expected = []
    for game in collected.games:
        may_resign = float(rng.uniform(rng.key(3, torch.tensor(game.number), Purpose.RESIGN), 1)) < 0.6
        if may_resign or game.score_black == 0:
            continue
        black = min([value for ply, value in enumerate(game.root_values) if ply >= 3 and ply % 2 == 0], default=1.0)
        white = min([value for ply, value in enumerate(game.root_values) if ply >= 3 and ply % 2 == 1], default=1.0)
        expected.append((black, white) if game.score_black > 0 else (white, black))
    found = torch.tensor(sorted(selfplay.resignation.games))
    assert torch.allclose(found, torch.tensor(sorted(expected))) and len(expected) > 5


def test_a_share_of_games_drawn_by_number_is_written_as_sgf(tmp_path: Path) -> None:
    _, collected = table_games("game.size=3", "game.komi=1", "selfplay.sgf_share=0.4", num_games=30)
    drawn = rng.uniform(rng.key(3, torch.arange(100), Purpose.SGF), 1).squeeze(1)
    assert all(drawn[game.number] < 0.4 for game in collected.games) and 3 < len(collected.games) < 25
    write_games(tmp_path, collected.games, "tiny")
    assert len(list(tmp_path.iterdir())) == len(collected.games)
    for game in collected.games:
        record, score = sgf.read(tmp_path / f"game-{game.number:08d}.sgf"), game.score_black
        assert (record.rules, record.moves) == (game.rules, game.moves)
        assert record.result == ("0" if score == 0 else f"{'B' if score > 0 else 'W'}+{abs(score):g}")
    assert len({(game.score_black > 0) - (game.score_black < 0) for game in collected.games}) == 3


def test_a_resigned_game_says_so(tmp_path: Path) -> None:
    write_games(tmp_path, [FinishedGame(7, Rules(3), [4, 0], [0.5, -0.9], 1.0, EndReason.RESIGNED)], "tiny")
    text = (tmp_path / "game-00000007.sgf").read_text()
    assert "RE[B+R]" in text and "ended by: resigned" in text
    assert "SBKV[75.00]" in text and "SBKV[95.00]" in text  # Black's winrates, for a graph


AUTO = ("selfplay.slots=0", "search.leaves=0", "selfplay.full_simulations=40", "selfplay.cheap_simulations=40")


@pytest.fixture
def pretended(monkeypatch, request) -> list[int]:
    """Makes a device where a call costs 15 positions, 512 are enough, or as said; returns the sizes asked for."""
    asked: list[int] = []

    def speed(work, size: int, device: torch.device, is_replayed: bool = False) -> float:
        asked.append(size)
        work()
        return 1e6 * size / (15 + size)

    def simulated(settings: Config, *_: object) -> float:
        size = settings.selfplay.slots * settings.search.leaves
        return 1e6 * size / (moves + size)

    moves = getattr(request, "param", 15)
    monkeypatch.setattr(tuning, "speed", speed)
    monkeypatch.setattr(limits, "measure_moves", simulated)
    return asked


def fitted(*overrides: str, most_games: int = limits.MOST_GAMES) -> tuple[int, int, str]:
    fitted, why = limits.fit_to_device(tiny.config(*overrides), tiny.Table(), tiny.CPU, most_games)
    return fitted.selfplay.slots, fitted.search.leaves, why


@pytest.mark.parametrize(("words", "most_games", "games", "leaves"), tables("tuning")["games and leaves"])
def test_leaves_fill_what_games_leave_open(words: str, most_games: int, games: int, leaves: int, pretended) -> None:
    """As far as the simulations of a search bear it."""
    assert fitted(*AUTO, *words.split(), most_games=most_games)[:2] == (games, leaves)


def test_games_fill_the_batch_and_numbers_that_are_given_stay(pretended: list[int], monkeypatch) -> None:
    assert fitted("selfplay.slots=7", "search.leaves=3") == (7, 3, "") and not pretended
    rates = "944,649 evaluations/s in batches of 256, 5 % less in those of 128, 3 % more in those of 512"
    whole = rates.replace("evaluations/s in", "simulations/s of whole moves in")
    assert fitted(*AUTO) == (256, 1, f"256 games at once: {whole}; {rates}")
    assert pretended == [64, 128, 256, 512, 1024]
    monkeypatch.setattr(limits, "_games_in_memory", lambda *_: 64)
    games, leaves, why = fitted(*AUTO)
    assert (games, leaves) == (64, 4) and why.startswith("64 games at once, 4 leaves of each tree in a step: ")


@pytest.mark.parametrize("pretended", [150], indirect=True)
def test_what_moves_cost_asks_for_more_games(pretended: list[int]) -> None:
    assert fitted(*AUTO)[:2] == (2048, 1) and max(pretended) == 1024


@pytest.mark.parametrize("pretended", [150], indirect=True)
def test_no_more_games_than_three_iterations_have_nor_leaves_in_their_place(pretended: list[int]) -> None:
    settings = tiny.config(*AUTO, "pipeline.games_per_iteration=100")
    chosen, _ = limits.pick_slots(settings, None, tiny.Table, tiny.CPU)
    assert (chosen.selfplay.slots, chosen.search.leaves) == (300, 1)


def test_whole_moves_are_timed_with_games_that_end(monkeypatch) -> None:
    small, runs, play = tiny.config("selfplay.slots=4", "selfplay.opening_plies=1"), [], SelfPlay.play
    monkeypatch.setattr(SelfPlay, "play", lambda *given, **named: runs.append(play(*given, **named)) or runs[-1])
    monkeypatch.setattr(limits, "WHOLE_MOVES_SECONDS", 0.0)  # a busy machine may take all the time from a process
    assert limits.measure_moves(small, tiny.Table(), tiny.CPU) > 0
    assert [result.moves for result in runs] == [4, 4] and {1, 2} <= set(runs[0].lengths + runs[1].lengths)


def test_memory_is_that_of_the_games(monkeypatch) -> None:
    """The trees and records that self-play makes take the memory that is estimated for them."""
    settings = tiny.config("selfplay.slots=50", "selfplay.full_simulations=60")
    selfplay = tiny.self_play(settings, tiny.Table(), 1)
    tree, records = selfplay.search_state.tree, selfplay.recorder.tables.values()
    of_games = 50 * tree.num_nodes * tree.bytes_per_node + sum(table.nbytes for table in records)
    assert limits.bytes_of_game(settings) == (tree.bytes_per_node, of_games // 50)
    monkeypatch.setattr(runtime, "free_bytes", lambda device: int(of_games * 20 / limits.MEMORY_SHARE))
    assert limits._games_in_memory(settings, tiny.CPU) == 1000
    monkeypatch.setattr(limits, "PROCESS_BYTES", int(of_games * 2 / limits.MEMORY_SHARE))
    matches = config.EvaluationConfig(games=2, simulations=tree.num_nodes)
    with_matches = dataclasses.replace(settings, evaluation=matches)
    assert 895 <= limits._games_in_memory(with_matches, tiny.CPU, True) <= 900  # 100 for the process, some four trees
    assert limits._games_in_memory(with_matches, tiny.CPU) == limits._games_in_memory(settings, tiny.CPU, True) == 1000
    monkeypatch.setattr(limits, "PROCESS_BYTES", 2**60)
    assert limits._games_in_memory(with_matches, tiny.CPU, True) == 0
    monkeypatch.setattr("zerogo.system.distributed.local_rank_and_size", lambda: (1, 4))
    assert limits._games_in_memory(settings, tiny.CPU) == 250
    monkeypatch.setattr(runtime, "free_bytes", lambda device: None)
    assert limits._games_in_memory(settings, tiny.CPU) == limits.MOST_GAMES


def test_a_run_keeps_what_it_has_chosen(pretended: list[int], tmp_path: Path, monkeypatch, capsys) -> None:
    """The numbers of games and leaves, and the precision; the start tries playouts if final matches need them."""
    asked, matches = [], ("pipeline.final_matches=true", "evaluation.opponents=['mcts:2']")
    monkeypatch.setattr(tuning, "pick_proven_dtype", lambda *values: asked.append(values[2:]) or torch.float32)
    monkeypatch.setattr(limits, "_games_in_memory", lambda *_, **__: 9)
    words = (f"run.directory={tmp_path}", *AUTO[:2], "run.precision=auto", "pipeline.iterations=1")
    train(tiny.config(*words))
    said = capsys.readouterr().out
    assert f", float32, {kernels.in_use(tiny.CPU)}, " in said.splitlines()[0]
    assert "\nself-play: 9 games at once: " in said
    for kept in (config.load(tmp_path / "tiny" / "config.yaml"), checkpoint.newest(tmp_path / "tiny").config):
        assert (kept.selfplay.slots, kept.search.leaves) == (9, 1)
    pretended.clear()
    train(tiny.config(*words[:-1], "pipeline.iterations=2", *matches), resume=True)
    assert not pretended and "self-play:" not in capsys.readouterr().out
    assert asked == [(set(), ""), ({"playouts"}, "float32")]
    assert config.load(tmp_path / "tiny" / "config.yaml").selfplay.slots == 9
    setup = cli.set_up(tiny.config(*words, "run.seed=2"))
    generate(setup, checkpoint.newest(tmp_path / "tiny"), 5, tmp_path / "games")
    assert "self-play: 5 games at once: " in capsys.readouterr().out
    assert len(list((tmp_path / "games" / "games").glob("*.sgf"))) == 5
