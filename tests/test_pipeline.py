"""The whole loop on the smallest runs, of one board and of several: what they leave behind, how they go on, what they
refuse, and who may play what came of them."""

import errno
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import gtp_talk
import pytest
import tiny
import torch
from tables import tables

from zerogo import __main__ as commands
from zerogo import checkpoint, cli, config, sgf
from zerogo.analysis.query import AnalysisSettings, QueryError, parse
from zerogo.arena import pool
from zerogo.config import EvaluationConfig, with_overrides
from zerogo.errors import InputError
from zerogo.pipeline import run, snapshots, too_many_considered
from zerogo.pipeline.actors import generate
from zerogo.pipeline.sanity_checks import calibration_error
from zerogo.players import plays_on
from zerogo.players.analyst import make_analyst
from zerogo.players.live import LiveGame
from zerogo.players.session import AnalysisSession
from zerogo.replay.shards import find_shards, load_shard
from zerogo.rules import Rules
from zerogo.selfplay.opening import draw_rules
from zerogo.system import distributed
from zerogo.system.signals import Signals

TAGS = (Path(__file__).parent / "data" / "tags.txt").read_text().split()  # of the numbers of each iteration
PICTURES = ("selfplay/final_boards", "network/first_move")


def without_snapshots(folder: Path) -> Path:
    """Leaves a run its checkpoints alone, as runs of before snapshots had; returns its folder."""
    shutil.rmtree(folder / "snapshots")
    return folder


def charted_iterations(folder: Path) -> list[int]:
    """Returns the iterations that have a line, in its order."""
    records = tiny.lines(folder / "logs" / "metrics.jsonl")
    return [record["time/iterations"] for record in records if "time/iterations" in record]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two iterations with matches, that the tests only look at."""
    matches = "evaluation.every_iterations=1", "evaluation.opponents=[random, self, 'mcts:2@white']"
    return tiny.run(tmp_path_factory.mktemp("finished"), "pipeline.final_matches=true", *matches)


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """The folder of all runs, with a copy of that run to go on with."""
    shutil.copytree(finished, tmp_path / "tiny")
    return tmp_path


def test_a_run_leaves_its_settings_checkpoints_samples_and_games(finished: Path) -> None:
    stored = config.load(finished / "config.yaml")
    assert (stored.game.size, stored.run.name, stored.pipeline.iterations) == (3, "tiny", 2)
    found = [checkpoint.load(path) for path in checkpoint.paths(finished)]
    assert len(found) == 2 and [one.counters["iterations"] for one in found] == [1, 2]
    assert found[0].step < found[1].step and found[0].counters["seconds"] < found[1].counters["seconds"]
    games = tiny.all_samples(finished).game
    assert len(games) == found[1].counters["replay"]["total"]
    assert int(games.max()) < found[1].counters["games"] and len(games.unique()) >= 16 + 2 * 8
    assert list((finished / "games").glob("*.sgf"))
    assert "against itself" in (finished / "report.html").read_text(), "what the final matches showed"


def test_speeds_leave_out_setup_and_snapshots(tmp_path: Path, monkeypatch) -> None:
    """Two minutes of measuring count as minutes of the run, but say nothing of how fast the others pass; nor does the
    hour between two training steps of 1 s say how fast it learns."""
    seconds = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[-1])
    monkeypatch.setattr(run.limits, "pick_slots", lambda settings, *_: seconds.append(120.0) or (settings, ""))
    started = run.Run(tiny.config("pipeline.minutes=60"), tmp_path / "tiny", None, Signals(), snapshots.Rollback())
    seconds.append(130.0)
    started._show()
    assert started._line.line() == "tiny: 2.2/60 min, 4 %, 0:57:50 left"
    started._add_to_replay(run.random_games(started.config.game, 16, 1, 0, tiny.CPU).all_samples())
    for name, length in (("_show", 1.0), ("_handle_requests", 3600.0)):
        monkeypatch.setattr(run.Run, name, lambda *_, length=length: seconds.append(seconds[-1] + length))
    assert started._learn()["train/samples_per_s"] == started.config.training.batch
    started.networks.settings = replace(started.networks.settings, precision="auto")
    for untried in (set(), {"cpu"}):
        monkeypatch.setattr(run.tuning, "untried_precisions", untried)
        assert bool(started.networks.state_dict()["precision"]) == (not untried), "only what was measured is kept"
    started.close()


def started(folder: Path, *words: str) -> run.Run:
    """Returns a run of the smallest settings that has learned from its random games."""
    begun = run.Run(tiny.config(*words), folder / "tiny", None, Signals(), snapshots.Rollback())
    begun._bootstrap_random_games()
    return begun


def test_a_rank_plays_on_while_others_learn(tmp_path: Path, monkeypatch) -> None:
    """Its games count in the next iteration, and lie in a snapshot until then; it takes over what others learn."""
    playing, begun, wanted = started(tmp_path), [], []
    playing._play()
    monkeypatch.setattr(distributed, "is_learner", lambda: False)
    monkeypatch.setattr(distributed, "num_learners", lambda: 0)

    def begin(facts: list[float]) -> tuple:
        """The others sync after a while; at the third time they have learned."""
        begun.append(polls := [])
        return lambda: polls.append(0) or len(polls) == 3, lambda: [*facts[:4], len(begun) == 3]

    monkeypatch.setattr(distributed, "begin_all_reduce_max", begin)
    learned = {"loss": 1.0}, {}, (playing.trainer.state_dict() | {"steps": 7}, playing.replay.counters() | {"taken": 9})
    monkeypatch.setattr(distributed, "broadcast_from_rank0", lambda work: learned)
    assert playing._learn() == {"loss": 1.0} and list(map(len, begun)) == [3, 3, 3]
    assert (playing.trainer.steps, playing.replay.num_drawn) == (7, 9)
    ahead = playing.iteration.ahead
    playing.selfplay.play(6, collected=ahead)
    playing._write_games()
    assert len(ahead.lengths) >= 6 and not ahead.games
    with monkeypatch.context() as patched:
        begun.clear()
        patched.setattr(playing.selfplay, "play", lambda number, **_: wanted.append(number))
        playing._play_ahead(2)
    assert wanted == [len(ahead.lengths) + 2] * 3, "those of a snapshot count"
    state = playing.iteration.state_dict()
    state["ahead"]["collected"]["is_whole"] = False  # as in snapshots of earlier versions
    kept = run.Iteration.of(state, tiny.CPU)
    assert kept.ahead.lengths == ahead.lengths and kept.is_learning
    assert torch.equal(kept.ahead.all_samples().records(), ahead.all_samples().records())
    playing.iteration, before = run.Iteration(kept.ahead), playing.replay.total
    playing._play()
    assert playing.replay.total - before == playing.iteration.num_samples >= len(ahead.all_samples())
    assert len(playing.iteration.collected.lengths) < 8 + len(ahead.lengths)
    playing.close()


def test_numbers_stand_in_tensorboard_and_as_lines(finished: Path) -> None:
    records = tiny.lines(finished / "logs" / "metrics.jsonl")
    assert len((finished / "logs" / "metrics.jsonl").read_text().splitlines()) == len(records)
    iterations = [record for record in records if "time/iterations" in record]
    assert [record["time/iterations"] for record in iterations] == [1, 2]
    assert all(set(TAGS) <= record.keys() for record in iterations)
    events = tiny.events(finished / "logs")
    assert set(TAGS) <= set(events.Tags()["scalars"]) and set(PICTURES) <= set(events.Tags()["images"])
    assert [event.value for event in events.Scalars("time/iterations")] == [1, 2]
    matches = [record for record in records if "eval/random_winrate" in record]
    assert len(matches) == 2  # after the first iteration and at the end
    for record in matches:
        assert {"eval/self_whole_board_black", "eval/mcts2_white_winrate", "eval/elo"} <= record.keys()


def test_calibration_is_the_gap_between_values_and_results() -> None:
    values, results = torch.tensor([0.9, 0.9, -0.5, -0.5]).numpy(), torch.tensor([1.0, 0.0, -1.0, 0.0]).numpy()
    assert calibration_error(values, results) == pytest.approx((2 * 0.4 + 0.0) / 4)


def test_a_run_that_has_ended_goes_on_under_other_settings(copied: Path, capsys) -> None:
    before = checkpoint.newest(copied / "tiny")
    settings = "pipeline.iterations=3", "replay.capacity=3000", "training.learning_rate=0.01"
    folder = tiny.run(copied, *settings, resume=True)
    after = checkpoint.newest(folder)
    assert "training.learning_rate is 0.01; it was 0.001" in capsys.readouterr().err
    assert charted_iterations(folder) == [1, 2, 3] and before.step < after.step == after.trainer["samples"] / 16
    assert [group["lr"] for group in after.trainer["optimizer"]["param_groups"]] == [0.01, 0.01]
    assert f"tiny@{before.step}" in {meeting.player for meeting in pool.read(folder / pool.FILE)}


def test_a_damaged_run_is_not_overwritten(copied: Path) -> None:
    for path in checkpoint.paths(copied / "tiny"):
        path.write_bytes(path.read_bytes()[:1000])
    before = tiny.files(copied)
    with pytest.raises(InputError, match="already holds a run"):
        tiny.run(copied)
    assert tiny.files(copied) == before


def test_a_run_begins_with_weights_of_another_size(finished: Path, tmp_path: Path) -> None:
    start = f"run.start_from={finished}"
    larger = tiny.run(
        tmp_path, "game.size=5", start, "network.heads.reply=0.15", "replay.min_window=200", "pipeline.iterations=5"
    )
    steps = [line["step"] for line in tiny.lines(larger / "logs" / "metrics.jsonl")]
    assert steps[0] == 0 < steps[-1], "learning begins when there are as many samples as the least window"
    newest = checkpoint.newest(larger)
    assert [*newest.sizes] == [5] and "map_readout.parts.reply.weight" in newest.weights
    untrained = tiny.run(tmp_path / "no", "game.size=5", start, "training.batch=4096", "pipeline.iterations=1")
    one, other = (checkpoint.newest(folder).averaged_weights["stem.conv.weight"] for folder in (untrained, finished))
    assert torch.equal(one, other)
    with pytest.raises(InputError, match="was made with network.channels 8, but the config says 4; its weights fit"):
        tiny.run(tmp_path / "other", start, "network.channels=4")


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), RuntimeError("can't allocate memory")])
def test_a_state_that_cannot_be_read_now_ends_the_run_and_stays(copied: Path, monkeypatch, error: Exception) -> None:
    before = tiny.files(copied)
    monkeypatch.setattr(torch, "load", Mock(side_effect=error))
    with pytest.raises(InputError, match=f"snapshot-.* can't be read now .{error.args[-1]}.; try again"):
        tiny.run(copied, "pipeline.iterations=3", resume=True)
    assert tiny.files(copied) == before


@pytest.mark.parametrize(("words", "warns"), tables("config")["more moves than half of the simulations"])
def test_more_moves_than_half_of_the_simulations_are_warned_of(words: str, warns: bool) -> None:
    settings = config.load(None, words.split())
    assert bool(too_many_considered(settings.search, settings.selfplay)) == warns


SPOILS = {
    "is cut short": lambda path: path.write_bytes(path.read_bytes()[:-500]),
    "holds only a network": lambda path: checkpoint.export(path, checkpoint.load(path)),
    "has format 1": lambda path: checkpoint.save(path, replace(checkpoint.load(path), run={"ranks": 1})),
}


def test_a_checkpoint_that_no_run_can_go_on_from_is_skipped_with_a_warning(copied: Path) -> None:
    older, newer = checkpoint.paths(without_snapshots(copied / "tiny"))
    content, first = newer.read_bytes(), checkpoint.load(older)
    for reason, spoil in SPOILS.items():
        newer.write_bytes(content)
        spoil(newer)
        with pytest.warns(UserWarning, match=f"skipped: .*{newer.name} {reason}"):
            assert next(snapshots.starts(copied / "tiny")).step == first.step
    with pytest.warns(UserWarning, match="skipped: "):
        folder = tiny.run(copied, "pipeline.iterations=2", resume=True)
    after = checkpoint.newest(folder)
    assert after.counters["iterations"] == 2 and after.step > first.step
    assert charted_iterations(folder) == [1, 2]


@pytest.mark.filterwarnings("error::UserWarning")
def test_the_newest_state_is_exported_that_of_a_snapshot_too(copied: Path) -> None:
    newest, exported = next(snapshots.starts(copied / "tiny")), copied / "exported.pt"
    command = ["--export", str(exported), f"run.directory={copied}", "--run=tiny"]
    for path in reversed(checkpoint.paths(copied / "tiny")):
        path.unlink()
        commands.main_train(commands.parse_train(command))
        network = checkpoint.load(exported)
        assert network.step == newest.step
        assert all(torch.equal(network.weights[name], one) for name, one in newest.averaged_weights.items())
    checkpoint.export(path, newest)
    without_snapshots(copied / "tiny")
    commands.main_train(commands.parse_train(command))


def test_without_a_checkpoint_the_samples_still_count_and_the_charts_are_kept(copied: Path, capsys) -> None:
    for path in checkpoint.paths(without_snapshots(copied / "tiny")):
        path.unlink()
    shards, charts = find_shards(copied / "tiny" / "replay"), tiny.files(copied / "tiny" / "logs")
    text = (path := copied / "tiny" / "config.yaml").read_text()
    path.write_text(text.partition("  games_per_iteration")[0])
    with pytest.raises(InputError, match="config.yaml was cut short, and no snapshot"):
        commands.main_train(commands.parse_train(["--resume", "--run", "tiny", f"run.directory={copied}"]))
    path.write_text(text)
    folder = tiny.run(copied, "pipeline.iterations=1", resume=True)
    after = checkpoint.newest(folder)
    assert after.counters["iterations"] == 1 and after.counters["replay"]["total"] > shards[-1].end
    (kept,) = folder.glob("logs-*")
    assert f"so the run begins again; its charts so far are kept in {kept}" in capsys.readouterr().err
    assert tiny.files(kept) == charts and charted_iterations(folder) == [1]


# Boards of several sizes

SIZES = {3: 8.5, 4: 1.5, 5: 24.5}  # and their komi
MIXED = """
    game.sizes=[[3,1,8.5],[4,1,1.5],[5,1,24.5]] game.size=4 game.komi=1.5 game.move_cap=0 game.random_komi_share=0.5
    game.komi_spread=2 game.superko_shares={"positional":1,"situational":1} game.suicide_share=0.5
    network.value_pooling=area features.encoder=[on_board,history:7,katago_rules] selfplay.random_opening_games=32
    pipeline.games_per_iteration=16 training.batch=64
""".split()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learns 3x3, 4x4 and 5x5 together, that the tests only look at; one opponent is for 4x4."""
    folder = tmp_path_factory.mktemp("mixed")
    checkpoint.save(folder / "four.pt", tiny.fresh_checkpoint(tiny.config("game.size=4")))
    matches = f"evaluation.opponents=[random, '{folder}/four.pt', self]", "evaluation.every_iterations=1"
    return tiny.run(folder, *MIXED, *matches, "pipeline.final_matches=true", "evaluation.earlier_opponents=1")


def test_samples_and_games_of_all_boards(mixed: Path) -> None:
    samples, found = tiny.all_samples(mixed), checkpoint.newest(mixed)
    settings = found.config
    assert samples.board_size == 5 and [*found.sizes] == [3, 4, 5] and settings.game.rules().komi == 1.5
    numbers = samples.game.unique()
    rules = dict(zip(numbers.tolist(), draw_rules(settings.game, numbers, settings.run.seed), strict=True))
    assert len(samples) == found.counters["replay"]["total"]
    assert min(Counter(one.size for one in rules.values()).values()) > 5
    kept = samples.state().rules
    for k in range(len(samples)):
        assert kept.at(k) == rules[int(samples.game[k])]
    for path in (mixed / "games").glob("*.sgf"):
        record = sgf.read(path)
        assert record.rules.size in SIZES and all(0 <= move <= record.rules.size**2 for move in record.moves)
        assert LiveGame.of_record(record).moves  # legal by the plain rules


def test_charts_tell_the_boards_apart(mixed: Path) -> None:
    records = tiny.lines(mixed / "logs" / "metrics.jsonl")
    matches = [record for record in records if "eval/3x3/random_winrate" in record]
    assert len(matches) == 2  # after the first iteration and at the end
    for size in SIZES:
        tags = {f"eval/{size}x{size}/elo", f"eval/{size}x{size}/self_whole_board_black"}
        assert all(tags <= record.keys() for record in matches) and f"eval/{size}x{size}/elo_low" in matches[0]
        assert any(f"selfplay_{size}x{size}/share_of_games" in record for record in records)
        assert "random" in (mixed / f"{size}x{size}" / "report.html").read_text()
    assert not any("eval/elo" in record for record in records)
    events = tiny.events(mixed / "logs")
    pictures = {"selfplay/final_boards", *(f"network/first_move_{size}x{size}" for size in SIZES)}
    assert pictures <= set(events.Tags()["images"])


def test_analysts_players_and_clients(mixed: Path) -> None:
    path = checkpoint.newest(mixed).source
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
    assert talk.ask("boardsize 9") == "? unacceptable size; allowed are 3x3, 4x4 and 5x5"


def test_self_play_on_one_of_the_boards(mixed: Path, tmp_path: Path, monkeypatch) -> None:
    """`zerogo selfplay` with the sizes taken out plays on one board, in tensors of its own side."""
    settings = with_overrides(checkpoint.newest(mixed).config, ["game.sizes=[]", "game.size=3", "game.komi=8.5"])
    same = []
    monkeypatch.setattr("zerogo.system.distributed.require_same", lambda *facts: same.append(facts[0]))
    generate(cli.set_up(settings), newest := checkpoint.newest(mixed), 4, tmp_path / "out")
    assert same == [{"the step": newest.step}]
    sides = {load_shard(shard.path).board_size for shard in find_shards(tmp_path / "out" / "samples")}
    assert sides == {3} and len(list((tmp_path / "out" / "games").glob("*.sgf"))) == 4


def test_an_opponent_for_one_board_is_met_there(mixed: Path, tmp_path: Path) -> None:
    met = [(meeting.opponent, meeting.size) for meeting in pool.read(mixed / pool.FILE)[:4]]
    assert met == [("random", 3), ("random", 4), ("four@1", 4), ("random", 5)]
    opponents = f"evaluation.opponents=['{mixed.parent}/four.pt']"
    with pytest.raises(InputError, match="four.pt plays on 4x4 only; this run is on 3x3 and 5x5"):
        tiny.run(tmp_path, *MIXED, opponents, "game.sizes=[[3, 1, 9], [5, 1, 9]]", "game.size=5")
