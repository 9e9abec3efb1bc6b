"""A run that learns 3x3, 4x4 and 5x5 together: what it leaves behind, how it goes on, and who may play what came of
it."""

from collections import Counter
from pathlib import Path

import gtp_talk
import pytest
import tiny
import torch

from zerogo import checkpoint, cli, sgf
from zerogo.analysis.query import AnalysisSettings, QueryError, parse
from zerogo.arena import pool
from zerogo.config import EvaluationConfig, with_overrides
from zerogo.errors import InputError
from zerogo.pipeline import generate
from zerogo.players import plays_on
from zerogo.players.analyst import make_analyst, make_player
from zerogo.players.live import LiveGame
from zerogo.players.session import AnalysisSession
from zerogo.replay.shards import find_shards, load_shard
from zerogo.rules import Rules
from zerogo.selfplay.opening import drawn_rules

SIZES = {3: 8.5, 4: 1.5, 5: 24.5}  # and their komi
MIXED = """
    game.sizes=[[3,1,8.5],[4,1,1.5],[5,1,24.5]] game.size=4 game.komi=1.5 game.move_cap=0 game.random_komi_share=0.5
    game.komi_spread=2 game.superko_shares={"positional":1,"situational":1} game.suicide_share=0.5
    network.value_pooling=area features.encoder=[on_board,history:7,katago_rules] selfplay.random_opening_games=32
    pipeline.games_per_iteration=16
""".split()


def run(folder: Path, *overrides: str, resume: bool = False) -> Path:
    return tiny.run(folder, *MIXED, *overrides, resume=resume)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two iterations with matches, that the tests only look at."""
    matches = ("pipeline.final_matches=true", "evaluation.every_iterations=1", "evaluation.opponents=[random, self]")
    return run(tmp_path_factory.mktemp("finished"), *matches, "evaluation.earlier_opponents=1")


def test_samples_and_games_of_all_boards(finished: Path) -> None:
    samples, found = tiny.all_samples(finished), checkpoint.newest(finished)
    config = found.config
    assert samples.board_size == 5 and found.sizes == {3, 4, 5} and config.game.rules().komi == 1.5
    numbers = samples.game.unique()
    rules = dict(zip(numbers.tolist(), drawn_rules(config.game, numbers, config.run.seed), strict=True))
    assert len(samples) == found.counters["replay"]["total"]
    assert min(Counter(one.size for one in rules.values()).values()) > 5
    kept = samples.state().rules
    for k in range(len(samples)):
        assert kept.at(k) == rules[int(samples.game[k])]
    for path in (finished / "games").glob("*.sgf"):
        record = sgf.read(path)
        assert record.rules.size in SIZES and all(0 <= move <= record.rules.size**2 for move in record.moves)
        assert LiveGame.of_record(record).moves  # legal by the plain rules


def test_charts_tell_the_boards_apart(finished: Path) -> None:
    records = tiny.lines(finished / "logs" / "metrics.jsonl")
    matches = [record for record in records if "eval/3x3/random_winrate" in record]
    assert len(matches) == 2  # after the first iteration and at the end
    for size in SIZES:
        tags = {f"eval/{size}x{size}/elo", f"eval/{size}x{size}/self_whole_board_black"}
        assert all(tags <= record.keys() for record in matches) and f"eval/{size}x{size}/elo_low" in matches[0]
        assert any(f"selfplay_{size}x{size}/share_of_games" in record for record in records)
        assert "random" in (finished / f"{size}x{size}" / "report.html").read_text()
    assert not any("eval/elo" in record for record in records)
    events = tiny.events(finished / "logs")
    pictures = {"selfplay/final_boards", *(f"network/first_move_{size}x{size}" for size in SIZES)}
    assert pictures <= set(events.Tags()["images"])


def test_analysts_players_and_clients(finished: Path) -> None:
    path = checkpoint.newest(finished).source
    analyst = make_analyst(path, EvaluationConfig(simulations=2), tiny.CPU, torch.float32)
    assert [plays_on(analyst, size) for size in (2, 3, 4, 5, 6)] == [False, True, True, True, False]
    session = AnalysisSession(analyst, capacity=100)
    for size in SIZES:
        session.set_position(LiveGame(Rules(size, 0.5)))
        assert session.step() > 0 and session.analysis().ownership.shape == (size, size)
    with pytest.raises(InputError, match="plays on 3x3, 4x4 and 5x5 only; this game is on 9x9"):
        session.set_position(LiveGame(Rules(9)))
    with pytest.raises(QueryError, match="the board is 9x9; this network plays on 3x3, 4x4 and 5x5 only"):
        parse({"id": "a", "moves": [], "boardXSize": 9, "boardYSize": 9}, AnalysisSettings(), analyst.sizes)
    talk = gtp_talk.Talk(gtp_talk.engine(path, "--simulations", "2"))
    assert (talk.value("query_boardsize"), talk.value("get_komi")) == ("4", "1.5")
    for size in (5, 3):
        assert talk.value(f"boardsize {size}") == "" and talk.value("genmove b")
    assert talk.ask("boardsize 9") == "? unacceptable size"
    assert talk.engine.said[-1].endswith("plays on 3x3, 4x4 and 5x5 only")


def test_self_play_on_one_of_the_boards(finished: Path, tmp_path: Path) -> None:
    """`zerogo selfplay` with the sizes taken out plays on one board, in tensors of its own side."""
    config = with_overrides(checkpoint.newest(finished).config, ["game.sizes=[]", "game.size=3", "game.komi=8.5"])
    generate(cli.set_up(config), checkpoint.newest(finished), 4, tmp_path / "out")
    (shard,) = find_shards(tmp_path / "out" / "samples")
    assert load_shard(shard.path).board_size == 3 and len(list((tmp_path / "out" / "games").glob("*.sgf"))) == 4


def test_an_opponent_for_one_board_is_met_there(finished: Path, tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "four.pt", tiny.fresh_checkpoint(tiny.config("game.size=4")))
    assert make_player(str(tmp_path / "four.pt"), EvaluationConfig(), tiny.CPU, torch.float32).sizes == {4}
    opponents = (f"evaluation.opponents=[random, '{tmp_path}/four.pt']", "evaluation.every_iterations=1")
    folder = run(tmp_path / "runs", *opponents)
    met = [(meeting.opponent, meeting.size) for meeting in pool.read(folder / pool.FILE)]
    assert met == [("random", 3), ("random", 4), ("tiny@1", 4), ("random", 5)]
    with pytest.raises(InputError, match="four.pt plays on 4x4 only; this run is on 3x3 and 5x5"):
        run(tmp_path / "more", *opponents, "game.sizes=[[3, 1, 9], [5, 1, 9]]", "game.size=5")
