"""Matches on tiny boards between players whose moves are known; their reports, which no name can break."""

import html
import json
import math
import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import tiny
from matches import Always, Drawing, First, config, dies, moves_of, plain, same, some_result, written
from sgfmill.sgf import Sgf_game

from zerogo import arena, board, scoring, sgf
from zerogo.arena import MatchHooks, MatchResult, MatchSettings, elo, evaluate, play_match
from zerogo.arena.journal import GAMES_FILE, Journal, _read_games
from zerogo.arena.match import MatchGames
from zerogo.arena.result import FORFEIT, RESIGNED, PlayedGame, Stop, bin_scores, parse_score, rating_table, write_report
from zerogo.errors import InputError
from zerogo.rules import Rules
from zerogo.selfplay.opening import RandomPlayer
from zerogo.system import distributed

SMALL = Rules(size=3, komi=0.5)


def end_of(result: MatchResult, game: int) -> board.State:
    """Returns the end of one game; its moves must be legal, and two passes come at its end alone."""
    record = result.games[game].record(("a", "b"), result.rules)
    assert not any(state.is_over for state in sgf.replay(record)[0][:-1])
    return sgf.positions([record], [len(record.moves)])


def test_every_game_replays_to_its_result() -> None:
    result = play_match(Drawing("a"), RandomPlayer(), MatchSettings(Rules(size=4, komi=3.5), 24, seed=3))
    for number, game in enumerate(result.games):
        end = end_of(result, number)
        assert game.number == number and np.array_equal(end.stones[0].numpy(), game.stones)
        assert game.score_black == scoring.area_ownership_black(end.stones).sum().item() - 3.5
        assert game.capped == (end.passes.item() < 2)
        assert game.area_black == int((scoring.area_ownership_black(end.stones) == 1).sum())


def test_colours_are_paired_and_players_are_asked_only_for_their_games() -> None:
    first, second = First("a"), First("b")
    result = play_match(first, second, MatchSettings(SMALL, 6, seed=1))
    assert [game.a_is_black for game in result.games] == [True, False] * 3
    for player, parity in ((first, 0), (second, 1)):
        for games, colours in player.asked:
            for game, colour in zip(games, colours, strict=True):
                assert (colour == board.BLACK) == (game % 2 == parity)
    unpaired = play_match(first, second, MatchSettings(SMALL, 3, 1, is_paired=False))
    assert all(game.a_is_black for game in unpaired.games)


def test_openings_are_shared_by_a_pair_and_differ_between_pairs() -> None:
    result = play_match(Drawing("a"), Drawing("b"), MatchSettings(Rules(size=5), 40, seed=1, opening_plies=6))
    openings, moves = moves_of(result, 6), moves_of(result)
    assert np.array_equal(openings[0::2], openings[1::2])
    assert len(np.unique(openings[0::2], axis=0)) == 20
    assert not np.array_equal(moves[0::2], moves[1::2])
    other = play_match(Drawing("a"), Drawing("b"), MatchSettings(Rules(size=5), 40, seed=2, opening_plies=6))
    assert not np.array_equal(moves_of(other, 6), openings)


def test_the_move_cap_ends_games_as_they_stand() -> None:
    result = play_match(First(leave=0), First(leave=0), MatchSettings(Rules(size=5), 2, seed=1, move_cap=7))
    assert (result.lengths == 7).all() and result.num_capped == 2
    assert play_match(Drawing(), Drawing(), MatchSettings(SMALL, 20, seed=1)).lengths.max() <= 18


def test_territory_scoring() -> None:
    rules = Rules(size=3, komi=0.5, scoring="territory")
    result = play_match(First(leave=3), Always(), MatchSettings(rules, 2, seed=1, is_paired=False))
    end = end_of(result, 0)
    assert result.games[0].score_black == scoring.final_score_black(end).item() and result.whole_board_black == 1.0


def test_counts() -> None:
    scores = {f"game_{k}": {"score_black": score} for k, score in enumerate([1.5, 2.0, 0.0, -3.0, -0.5, 0.0])}
    result = some_result(num_games=6, **scores)
    assert (result.wins, result.draws, result.losses) == (2, 2, 2)
    assert result.by_colour(True) == (1, 1, 1) and result.by_colour(False) == (1, 1, 1)
    assert result.win_rate == 0.5 and result.black_win_rate == 0.5 and result.mean_score == pytest.approx(2 / 6)
    assert result.pair_points()[0].tolist() == [1.0, 1.5, 0.5]
    assert result.interval == elo.pair_interval([1.0, 1.5, 0.5])
    assert replace(result, is_paired=False).interval == elo.wilson_interval(3, 6)
    difference, low, high = result.elo_difference
    assert difference == 0 and low == pytest.approx(-high)
    assert (elo.win_rate(low), elo.win_rate(high)) == pytest.approx(result.interval)


def test_stopped_games_count_for_who_did_not_stop_them(tmp_path: Path) -> None:
    """A lost on the board, won by resignation, lost by forfeit, won by a fault: scores are known of the first alone."""
    result = some_result(
        *"ab",
        num_games=4,
        game_0={"score_black": -2.0, "final_scores": {"b": "W+2", "a": "W+9.5"}},
        game_1={"score_black": math.nan, "stop": Stop(RESIGNED, True), "final_scores": {"b": "0"}},
        game_2={"score_black": math.nan, "stop": Stop(FORFEIT, True, "crashed")},
        game_3={"score_black": math.nan, "stop": Stop(FORFEIT, True, "hung")},
    )
    assert [game.outcome_black for game in result.games] == [-1] * 4
    assert [game.outcome_a for game in result.games] == [-1, 1, -1, 1]
    assert (result.wins, result.draws, result.losses) == (2, 0, 2) and result.by_colour(True) == (0, 0, 2)
    assert result.mean_score == -2.0 and result.counted == result.games[:1] and result.black_win_rate == 0.0
    assert result.stopped(RESIGNED) == (0, 1) and result.stopped(FORFEIT) == (1, 1)
    assert [result.agreement(name) for name in "bac"] == [(1, 1, 1), (0, 1, 1), (0, 0, 0)]
    summary = json.loads(json.dumps(result.summary(), allow_nan=False))
    assert (summary["resigned"], summary["forfeits"]) == ([0, 1], [1, 1])
    assert summary["own_scores"] == {name: {"same": name == "b", "same_winner": 1, "of": 1} for name in "ab"}
    lines = "\n".join(result.lines())
    assert "names another winner" not in lines
    wrong = some_result(*"ab", num_games=4, game_0={"score_black": 2.0, "final_scores": {"b": "W+2"}})
    assert wrong.lines()[0].endswith("; BUT b disagrees with the referee about the winner in 1 of 1 games")
    assert "    game 3: a: crashed\n    game 4: b: hung" in lines and "b resigned in 1 of 4 games" in lines
    assert "  mean score -2.0 points over the games that were counted (1); " in lines
    assert [game.result_text for game in result.games] == ["W+2", "W+R", "W+F", "W+F"]
    text = Page(write_report(tmp_path, [result], ["a", "b"])).text
    assert "a lost by forfeit 1" in text and "b resigned 1" in text and "game 3: a: crashed" in text
    assert "b agrees with the referee on the score in 1 of 1 games" in text


def test_scores_that_engines_tell() -> None:
    told = {"B+3.5": 3.5, "w+0.5": -0.5, "0": 0.0, "Draw": 0.0, "W+12.0 (upper bound: -1)": -12.0}
    told |= dict.fromkeys(["B+R", "", "B+nan"])
    assert {text: parse_score(text) for text in told} == told


class Interrupt(BaseException):
    """Ends a match as a kill does: nothing handles it."""


def test_a_match_makes_progress_however_often_it_is_interrupted(tmp_path: Path, monkeypatch) -> None:
    """Each start makes one new ply; those of before are kept, and a line that was cut costs nothing."""
    words, settings, play_ply = ["random", "random"], config("game.size=3"), MatchGames.play_ply
    new, starts, results = 0, 0, None

    def few(games: MatchGames) -> list[PlayedGame]:
        nonlocal new
        new += games.ply >= games.begun.shape[1]
        if new == 2:
            raise Interrupt
        return play_ply(games)

    monkeypatch.setattr(MatchGames, "play_ply", few)
    while results is None:
        starts, new = starts + 1, 0
        with suppress(Interrupt):
            results = evaluate(words, 4, settings, tmp_path / "a", 1, resume=(tmp_path / "a").exists())
            break
        with open(tmp_path / "a" / "moves.jsonl", "a") as file:
            file.write("[0, 7, {")
    monkeypatch.undo()
    assert starts > 5 and all(map(same, results, evaluate(words, 4, settings, tmp_path / "b", 1)))


def test_illegal_moves_are_refused_new_ones_and_kept_ones() -> None:
    with pytest.raises(ValueError, match="passer played the illegal action 0 in game 0"):
        play_match(First(), Always(0), MatchSettings(SMALL, 2, seed=1))
    for begun, words in (({1: [4, 4]}, "a saved move of ply 1 is illegal"), ({0: [10]}, "of ply 0 is illegal")):
        with pytest.raises(InputError, match=words):
            play_match(First(), First(), MatchSettings(SMALL, 2, 1), MatchHooks(begun=begun))


def test_a_match_that_dies_at_any_of_its_file_operations_goes_on(tmp_path: Path) -> None:
    words, part, deaths, before = ["random", "mcts:2"], tmp_path / "part", 0, {}

    def go_on() -> None:
        evaluate(words, 2, config(), part, resume=(part / "match.json").exists())

    while dies(deaths + 1, go_on, (os, "replace"), (os, "fsync")):
        deaths, after = deaths + 1, written(part)
        assert all(after[key] == line for key, line in before.items()), "a finished game was lost or changed"
        before = after
    assert deaths > 4 and len(before) == 2 and not list(part.rglob("*.tmp"))
    whole = evaluate(words, 2, config(), tmp_path / "whole")
    assert all(map(same, whole, evaluate(words, 2, config(), part, resume=True)))


def test_kept_games_come_back_as_they_were(tmp_path: Path) -> None:
    stones = np.arange(9, dtype=np.int8).reshape(3, 3) % 3
    counted = PlayedGame(0, True, [4, 9, 9], 2.5, 6, False, stones, None, {"b": "B+2.5"})
    stopped = PlayedGame(3, False, [], math.nan, 0, False, stones, Stop(FORFEIT, True, "crashed"))
    with Journal(tmp_path, {"games": 4}, [("a", "b")], SMALL, resume=False) as journal:
        journal.add(0, [counted, stopped])
        with pytest.raises(InputError, match="already in use by process .*; wait .* or give --out another"):
            Journal(tmp_path, {"games": 4}, [("a", "b")], SMALL, resume=True)
    first, last = (path := tmp_path / GAMES_FILE).read_bytes().splitlines(keepends=True)
    changed = first.replace(b'"game": 0', b'"game": 1').replace(b"2.5,", b"3.5,")
    wrong = {first: "is there already", b"[1]\n": "not a mapping", b"{}\n": "the game lacks"}
    for line, why in (wrong | {changed: "score_black is 3.5, but the stones give 2.5"}).items():
        path.write_bytes(text := first + line + last)
        with pytest.raises(InputError, match=f"{GAMES_FILE}, line 2: .*{why}.*; mend the line, or remove it"):
            _read_games(path, SMALL, 1)
        assert path.read_bytes() == text
    path.write_bytes(first + first[:20] + first + last + b'{"match": 7, "ga')  # two processes were killed in a line
    with Journal(tmp_path, {"games": 4}, [("a", "b")], SMALL, resume=True) as journal:
        one, other = journal.finished[0]
    assert plain(one) == plain(counted) and one.stones.dtype == np.int8 and path.read_bytes() == first + last
    assert other.stop == stopped.stop and math.isnan(other.score_black) and other.moves == []
    path.write_bytes(first.replace(b"final_scores", b"told"))  # of an earlier version
    assert _read_games(path, SMALL, 1)[0][0].moves == [4, 9, 9]
    record = stopped.record(("a", "b"), SMALL)
    assert (record.result, record.black, record.comment) == ("W+F", "b", "b: crashed")
    assert counted.record(("a", "b"), SMALL).comment == "b says B+2.5"


def test_evaluate_writes_games_and_result(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    results = arena.evaluate(["random", "random", "random"], 4, config(), tmp_path / "out")
    files = sorted(path.name for path in (tmp_path / "out" / "games").iterdir())
    assert len(files) == 12 and files[0] == "random#2-vs-random#3-0001.sgf"
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    pairs = [["random", "random#2"], ["random", "random#3"], ["random#2", "random#3"]]
    assert [match["players"] for match in found["matches"]] == pairs
    assert len({result.seed for result in results}) == 3 and not same(results[0], results[1])
    assert found["matches"][0]["per_game"]["score_black"] == [game.score_black for game in results[0].games]
    assert min(rating["elo"] for rating in found["ratings"]) == 0 and found["config"]["game"]["size"] == 5
    shown = capsys.readouterr().out
    assert "as White" in shown and "95 % interval" in shown and "anchor" in shown
    game = Sgf_game.from_bytes((tmp_path / "out" / "games" / "random-vs-random#2-0002.sgf").read_bytes())
    names, length = [game.get_player_name(colour) for colour in "bw"], len(game.get_main_sequence()) - 1
    assert (names, length) == (["random#2", "random"], results[0].lengths[1])
    assert game.get_root().get("RE").startswith("B" if results[0].games[1].score_black > 0 else "W")
    with pytest.raises(InputError, match="has algorithm auto, not puct; it can only be resumed"):
        evaluate(3 * ["random"], 4, config("evaluation.algorithm=puct"), tmp_path / "out", resume=True)


def test_a_folder_that_holds_no_match_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """Not by a traceback, nor by waiting for who would write into a pipe."""
    path, wrong = tmp_path / "match.json", {"'list' object is not": lambda path: path.write_text("[]")}
    for words, make in (wrong | {"a regular file is needed": os.mkfifo}).items():
        path.unlink(missing_ok=True)
        make(path)
        with pytest.raises(InputError, match=words):
            evaluate(["random", "random"], 2, config(), tmp_path, resume=True)


def test_of_several_ranks_the_first_says_why_none_plays(tmp_path: Path, monkeypatch) -> None:
    """No rank waits in another call than the others."""
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_gather_object", lambda value: [value, value])
    monkeypatch.setattr("torch.distributed.broadcast_object_list", lambda values: None)
    for rank, words in ((0, "players: one is not enough"), (1, "^$")):
        monkeypatch.setattr(distributed, "is_rank0", lambda rank=rank: rank == 0)
        with pytest.raises(InputError, match=words):
            evaluate(["random"], 2, config(), tmp_path)
    monkeypatch.setattr(distributed, "is_rank0", lambda: True)
    no_gpu, newer = [None, "no GPU"], [*[None] * 5, ({"player 1": "random@2"}, "there")]
    for others, words in ((no_gpu, "^rank 1: no GPU$"), (newer, "^player 1 is random@2 on rank 1 .*the run's folder$")):
        monkeypatch.setattr(distributed, "all_gather_object", lambda value, others=others: [value, others.pop(0)])
        with pytest.raises(InputError, match=words):
            evaluate(["random", "random"], 2, config(), tmp_path)
        assert not others


EVIL = '<script>alert("1 & 2")</script>#2'


class Page:
    """A report: its tags, links and pictures, and its text without them."""

    def __init__(self, path: Path) -> None:
        source = path.read_text(encoding="UTF-8")
        self.tags, self.links = re.findall(r"<(\w+)", source), re.findall(r'href="(.*?)"', source)
        self.text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", source)).split())


def test_report_holds_ratings_colours_endings_and_pictures_and_no_name_breaks_it(tmp_path: Path):
    names = ["anna", "bert", EVIL]
    met = {("anna", "bert"): 8, ("anna", EVIL): 4, ("bert", EVIL): 2}
    fault = {"game_0": {"stop": Stop(FORFEIT, True, "<img src=x onerror=alert(1)>")}}
    results = [some_result(*pair, num_games=met[pair], **(fault if met[pair] == 2 else {})) for pair in met]
    path = write_report(tmp_path, results, names, rating_table(names, results), tiny.config("game.size=5").to_dict())
    assert path == tmp_path / "report.html" and [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    page = Page(path)
    assert "anna scores 50.0 % of 8 games" in page.text and "95 % interval" in page.text
    assert "as Black 2 0 2 50.0 %" in page.text and "as White 2 0 2 50.0 %" in page.text
    assert "two passes 7" in page.text and "move cap, scored as it stood 1" in page.text
    assert "Points of each (row) against each (column)" in page.text and "4 of 8" in page.text
    assert '"komi"' in page.text, "the settings are there"
    assert "script" not in page.tags and page.tags.count("img") == 6 + 4 + 2
    assert EVIL in page.text and "<img src=x onerror=alert(1)>" in page.text


def test_links_lead_to_the_games_that_are_there(tmp_path: Path):
    result = some_result("runs/a b", "mcts:9#2", num_games=3)
    name = result.games[1].file_name(("runs/a b", "mcts:9#2"))
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / name).write_text("(;)")
    page = Page(write_report(tmp_path, [result], ["runs/a b", "mcts:9#2"]))
    assert set(page.links) == {"games/runs_a_b-vs-mcts_9%232-0002.sgf"}
    assert all((tmp_path / unquote(target)).exists() for target in page.links)


def test_histogram_counts_every_game_once(tmp_path: Path):
    bins = bin_scores(np.array([-3.0, -0.5, 0.0, 0.5, 0.5, 20.5]))
    assert [sum(bins[side]) for side in ("black", "drawn", "white")] == [3, 1, 2] and bins["highest"] == 4
    assert bins["edges"][0] == -20.5 and bin_scores(np.array([])) is None
    scores = {f"game_{k}": {"score_black": score} for k, score in enumerate((-0.5, 0.0, 0.5, 20.5))}
    page = write_report(tmp_path, [some_result(num_games=4, **scores)], ["\udce8", "b"]).read_text(encoding="UTF-8")
    assert re.findall(r"<title>(\d+) games", page) == ["1"] * 4 and "W+20.5" in page and "B+20.5" in page
