"""What must hold on a CUDA device: games are the CPU's, and the host waits where it must and nowhere else.

With `-m gpu` these tests run on a GPU. Where there is none `test_on_the_pretended_device` runs them in processes of
their own on the one that `pretended/` makes; only that one counts launches and waits."""

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import tiny
import torch
from boards import after_random_moves
from searches import GUMBEL, PUCT, TableEvaluator

from zerogo import board, checkpoint, kernels, tuning
from zerogo.arena import MatchSettings, play_match
from zerogo.board import rng
from zerogo.board.rng import Purpose
from zerogo.config import Config, NetworkConfig, SearchConfig
from zerogo.errors import Interrupted
from zerogo.evaluator import SYMMETRIES, Evaluator
from zerogo.features import ENCODERS, Encoder, make_encoder
from zerogo.network import Network, inference_copy
from zerogo.network.trainer import LOSSES, Trainer
from zerogo.pipeline.actors import Actor, Inbox
from zerogo.players.analyst import SearchPlayer
from zerogo.players.playout import PlayoutEvaluator
from zerogo.replay import Replay
from zerogo.rules import Rules
from zerogo.search import Search, graph
from zerogo.selfplay import SelfPlay, SelfPlayResult
from zerogo.selfplay.opening import random_games as random_self_play
from zerogo.system.signals import Signals
from zerogo.system.telemetry import Progress
from zerogo.system.tensors import send
from zerogo.tensorboard_plugin import jobs
from zerogo.tuning import trials

pretend_cuda = sys.modules.get("pretend_cuda")  # where Python has imported it at its start
on_cuda = pytest.mark.gpu
HERE, CUDA = Path(__file__).parent, torch.device("cuda")
FEW, _module_for = ("tree", "roots", "draws"), kernels.module_for


def counted(function: Callable) -> Callable:
    reason = "only the simulated CUDA device counts launches and waits"
    return pytest.mark.gpu(pytest.mark.skipif(pretend_cuda is None, reason=reason)(function))


@pytest.mark.parametrize("marks", ["gpu and not slow", pytest.param("gpu and slow", marks=pytest.mark.slow)])
def test_on_the_pretended_device(marks: str) -> None:
    # A build with CUDA has registered its own hooks, and refuses others.
    compiles = not subprocess.getstatusoutput("g++ -std=c++20 -E -xc++ /dev/null")[0]
    if torch.version.cuda or not compiles or not sys.platform.startswith("linux"):
        pytest.skip("the simulated CUDA device is for Linux with g++ 10 or newer and a build of torch without CUDA")
    pytest.importorskip("triton")
    words = [*"-m pytest -q -p no:cacheprovider -m".split(), marks, __file__, f"{HERE}/pretended/test_device.py"]
    world = os.environ | {"PYTHONPATH": str(HERE / "pretended"), "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, *words], env=world, capture_output=True, text=True, cwd=HERE.parent)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-20_000:] + done.stderr


@contextmanager
def no_waiting() -> Iterator[None]:
    """Lets torch raise an error wherever it waits for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@contextmanager
def seen() -> Iterator[Any]:
    """Counts launches and waits inside a `with` block; none on a real GPU."""
    with pretend_cuda.seen() if pretend_cuda else nullcontext(Mock(launches=Counter(), waits=Counter())) as found:
        yield found


def use_few_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves all to torch but for what a search as a graph needs: interpreted kernels take long."""
    few = lambda name, device: _module_for(name, device) if name in FEW or device.type == "cpu" else None  # noqa: E731
    monkeypatch.setattr(kernels, "module_for", few)


@on_cuda
def test_a_graph_is_not_run_as_it_is_captured() -> None:
    given, found = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")
    with torch.cuda.graph(made := torch.cuda.CUDAGraph()):
        found.add_((given * 2).index_select(0, (given * 2).to(torch.int64)))
    assert found.tolist() == [0.0] * 3
    for _ in range(2):
        made.replay()
    given.fill_(0.5)
    made.replay()
    assert found.tolist() == [5.0] * 3
    with pytest.raises(RuntimeError, match="captur"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        given.tolist()


@on_cuda
def test_repeated_rows_are_sent() -> None:
    assert send(torch.tensor([[1.5], [2.5]]).expand(2, 3), CUDA).tolist() == [[1.5] * 3, [2.5] * 3]


# Self-play

WORDS = "game.size=2 game.komi=0.5 game.move_cap=4 selfplay.slots=2 selfplay.sgf_share=1".split()
WORDS += "selfplay.full_simulations=3 selfplay.cheap_simulations=2 selfplay.resign_share=0.5".split()
WORDS += ["selfplay.resign_min_ply=1"]
FACTORS = {"search.algorithm": ("gumbel", "puct"), "search.keep_tree": ("true", "false")}
FACTORS |= {"search.leaves": (1, 2), "selfplay.full_share": (1, 0.5)}
# One combination and the case "all" have each value of the first three factors; the other combinations are slow.
CASES = [
    pytest.param([f"{name}={of[k]}" for (name, of), k in zip(FACTORS.items(), places, strict=True)],
                 id="-".join(str(of[k]) for of, k in zip(FACTORS.values(), places, strict=True)),
                 marks=[] if places == (1, 1, 0, 1) else [pytest.mark.slow])
    for places in itertools.product((0, 1), repeat=4)
]  # fmt: skip


def played(settings: Config, device: torch.device, number: int) -> tuple[dict[int, tuple], dict[int, tuple], SelfPlay]:
    """Returns the moves of games by their numbers, what is learned of them, and who has played them."""
    selfplay = SelfPlay(settings, tiny.Table(), device, seed=2)
    selfplay.resignation.threshold = -0.3
    found = selfplay.play(number)
    samples, learned = found.all_samples(), {}
    for game in samples.game.unique().tolist():
        of_game = samples.select((samples.game == game).nonzero().squeeze(1))
        learned[game] = (of_game.ply.tolist(), of_game.reply.tolist(), of_game.value.tolist(), of_game.rows.tolist())
    return {game.number: (game.moves, game.end, game.score_black) for game in found.games}, learned, selfplay


@on_cuda
@pytest.mark.parametrize("words", [*CASES, pytest.param(["selfplay.full_share=0.5", "search.leaves=2"], id="all")])
def test_games_equal_those_on_the_cpu(words: list[str], request: pytest.FixtureRequest, monkeypatch) -> None:
    """Searches of two lengths, so that some games move while others go on; games that are over, resigned ones too, are
    taken in and replaced; steps are replayed as a graph. Interpreted, only one case has all kernels."""
    if pretend_cuda and "[all]" not in request.node.name:
        use_few_kernels(monkeypatch)
    monkeypatch.setattr(graph, "PAYS", 1)
    monkeypatch.setattr("zerogo.selfplay.CHECK_EVERY", 2)
    settings = tiny.config(*WORDS, *words)
    number = 3 if "[all]" in request.node.name else 2
    ours, learned, selfplay = played(settings, CUDA, number)
    assert selfplay.search_state.graph.play is not None and not selfplay.search_state.graph.refuses
    wanted, expected, _ = played(settings, tiny.CPU, 8)
    for one, other in ((ours, wanted), (learned, expected)):
        shared = one.keys() & other.keys()
        assert len(shared) >= number and all(one[game] == other[game] for game in shared)


def network_evaluator(encoder: Encoder, device: str | torch.device, symmetries: str = "random") -> Evaluator:
    settings = NetworkConfig(blocks=2, channels=8, pooling_channels=8, head_channels=8)
    torch.manual_seed(1)
    network = Network(settings, encoder.num_planes, encoder.num_globals, 4)
    return Evaluator.from_network(network, encoder, device=device, symmetries=symmetries)


# Waits of the host in a move; launches of a move whose roots are kept, and of any.
MOVES = {("gumbel", "triton"): (1, 110, 400), ("puct", "triton"): (1, 390, 700)}
MOVES |= {("gumbel", "torch"): (10, 2500, 3000), ("puct", "torch"): (6, 2500, 3000)}


@counted
@pytest.mark.parametrize(
    ("algorithm", "by"), [pytest.param(*of, marks=[pytest.mark.slow] if "torch" in of else []) for of in MOVES]
)
def test_the_host_waits_once_in_a_move_and_once_for_ended_games(algorithm: str, by: str) -> None:
    """With Triton; torch alone waits where it does not know how many nodes are kept, or points alive. No simulation
    waits. Games that have ended are taken in while the device simulates, when the next ones are drawn, too."""
    words = f"search.algorithm={algorithm} selfplay.slots=3 selfplay.resign_share=0 selfplay.opening_plies=0.1".split()
    settings, kinds = tiny.config(*WORDS, *words), set()
    settings = dataclasses.replace(settings, search=dataclasses.replace(settings.search, cuda_graph=False))
    waits, least, most = MOVES[algorithm, by]
    with nullcontext() if by == "triton" else kernels.plain():
        evaluator = network_evaluator(make_encoder("zero17", True), CUDA)
        selfplay = SelfPlay(settings, evaluator, CUDA, seed=1)
        for _ in range(5):
            collected = SelfPlayResult()
            with seen() as simulations:
                selfplay._simulate(lambda: False)
            with seen() as move:
                selfplay._move(selfplay.all_games, collected)
            ends, is_little = bool(selfplay.ended), move.launches.total() <= least
            with seen() as ended:
                selfplay._collect_ended(collected)
            assert move.waits.total() == waits and ended.waits.total() == int(ends), (move.waits, ended.waits)
            assert bool(collected.lengths) == ends and not ended.launches
            assert len(selfplay.games_ahead[1].number) >= selfplay.drawn_at_once and not selfplay.ended
            assert not simulations.waits and simulations.launches.total() <= 4 * (90 if by == "triton" else 1300)
            assert move.launches.total() <= most and not (ends and is_little), move.launches
            kinds.add((ends, is_little))
    assert {ends for ends, _ in kinds} == {False, True} and ((False, True) in kinds or by == "torch" or least > most)


@counted
def test_a_match_keeps_its_graphs_from_move_to_move(monkeypatch) -> None:
    """One for each player and number of games, filled up to a power of two; without kept states each move has one."""
    monkeypatch.setattr(graph, "PAYS", 1)
    use_few_kernels(monkeypatch)
    found = {}
    for device in (tiny.CPU, CUDA):
        players = [
            SearchPlayer(name, Search(TableEvaluator(passing), dataclasses.replace(GUMBEL, keep_tree=False)), 4)
            for name, passing in (("A", 1), ("B", 2))
        ]
        with seen() as counts:
            rules = Rules(2, 0.5, "positional")
            match = play_match(*players, MatchSettings(rules, 4, 1, move_cap=6, opening_plies=1, device=device))
        found[device.type] = [game.moves for game in match.games]
        assert not any(player.search_states for player in players)
    assert found["cuda"] == found["cpu"] and max(map(len, found["cpu"])) >= 5
    captures = sum(number for what, number in counts.waits.items() if what.startswith("a capture begins"))
    assert captures == 4  # of 10 moves


ALL_HEADS = "replay.reuse=1000", f"network.heads={dict.fromkeys(LOSSES, 0.5)}"


def learner(settings: Config, dtype: torch.dtype) -> tuple[Trainer, Replay]:
    encoder = make_encoder("zero17", True)
    torch.manual_seed(1)
    network = Network(settings.network, encoder.num_planes, encoder.num_globals, 3)
    ring = Replay(settings.replay, 3, device=CUDA)
    ring.add(random_self_play(settings.game, 12, 1, 0, tiny.CPU).all_samples())
    return Trainer(network, encoder, settings.training, settings.network.heads, CUDA, dtype), ring


@on_cuda
@pytest.mark.parametrize("sizes", ["[]", "[[3, 1, 4.5], [2, 1, 0.5]]"])
def test_a_training_step_waits_for_nothing(sizes: str, tmp_path: Path) -> None:
    """Taking the samples from a ring on the GPU, turning them, the losses of all heads and at every eighth step their
    metrics, clipping, the optimiser, averages of weights and of statistics; and takes few launches."""
    settings = tiny.config(*ALL_HEADS, f"game.sizes={sizes}")
    trainer, ring = learner(settings, torch.bfloat16)
    for measures in (True, False):  # tables are made once
        trainer.step(ring.sample_batch(16), measures)
    most = 210 if sizes == "[]" else 450  # of which 160 and 380 are the network's and the optimiser's
    for measures in (False, True):
        with no_waiting(), seen() as step:
            trainer.step(ring.sample_batch(16), measures)
        assert step.launches.total() <= most + 60 * measures, step.launches
    with no_waiting():
        trainer.refresh_statistics([ring.sample_batch(16)])
        trainer.measure(ring.sample_batch(16))
    batch = ring.sample_batch(16)
    for measures in (False, True):
        for _ in range(5):  # after which it is captured
            trainer.step(batch, measures)
        with no_waiting(), seen() as step:
            trainer.step(batch, measures)
        assert step.launches.total() <= 40, step.launches
    weights = trainer.network.state_dict()
    checkpoint.save(tmp_path / "a.pt", checkpoint.Checkpoint(settings, 1, weights, weights))
    assert all(part.device.type == "cpu" for part in checkpoint.load(tmp_path / "a.pt").weights.values())


@on_cuda
def test_a_replayed_training_step_learns_what_a_plain_one_does() -> None:
    """With metrics at every third step, and a batch of another size between."""
    learned = []
    for is_replayed in (False, True):
        trainer, ring = learner(tiny.config(*ALL_HEADS), torch.float32)
        trainer.differentiate.may_capture = is_replayed
        for number in range(16):
            metrics = trainer.step(ring.sample_batch(8 if number == 7 else 16), number % 3 == 0)
            assert (len(metrics) > 2) == (number % 3 == 0)
        assert len(trainer.differentiate.graphs) == 2 * is_replayed
        learned.append([*trainer.network.state_dict().values(), *trainer.averaged.state_dict().values()])
    is_same = torch.equal if pretend_cuda else partial(torch.allclose, rtol=1e-4, atol=1e-5)
    assert all(is_same(one, other) for one, other in zip(*learned, strict=True))


@on_cuda
def test_a_step_that_cannot_be_captured_is_made_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerogo.system.runtime.capture_cuda_graph", Mock(side_effect=RuntimeError("no room")))
    trainer, ring = learner(tiny.config(*ALL_HEADS), torch.float32)
    with pytest.warns(UserWarning, match="training without a CUDA graph, as it could not be captured: no room"):
        for _ in range(6):
            trainer.step(ring.sample_batch(16), False)
    assert trainer.steps == 6 and not trainer.differentiate.graphs


@on_cuda
def test_graphs_give_way_where_a_plain_step_lacks_memory() -> None:
    trainer, ring = learner(tiny.config(*ALL_HEADS), torch.float32)
    for _ in range(6):
        trainer.step(ring.sample_batch(16), False)
    step = trainer.differentiate
    step.function = Mock(side_effect=[torch.OutOfMemoryError, step.function(ring.sample_batch(16), True)])
    assert step.graphs and "value_loss" in trainer.step(ring.sample_batch(16), True)
    assert not step.graphs and not step.may_capture
    step.function.side_effect = torch.OutOfMemoryError
    with pytest.raises(torch.OutOfMemoryError):
        trainer.step(ring.sample_batch(16), False)


# Whole programs

SMALLEST = "run.device=cuda run.kernels=plain game.size=2 game.komi=0.5 game.move_cap=4".split()
SMALLEST += "selfplay.slots=4 selfplay.random_opening_games=8 pipeline.games_per_iteration=4".split()


@pytest.mark.slow  # half a minute
@counted
def test_a_run_plays_background_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_only", None)  # which the run changes for its process
    folder = tiny.run(tmp_path, *SMALLEST, "evaluation.every_iterations=1", "pipeline.iterations=2")
    assert any("eval/random_winrate" in line for line in tiny.lines(folder / "logs" / "metrics.jsonl"))


@pytest.mark.slow  # half a minute
@counted
def test_an_actor_plays_for_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until both are told to end: the run while it waits for games, the actor when its first shard is written."""
    monkeypatch.setattr(kernels, "_only", None)
    monkeypatch.setattr(Inbox, "wait", lambda *_: signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None))
    with pytest.raises(Interrupted):
        tiny.run(tmp_path, "replay.external=true", "pipeline.plays=false", *SMALLEST)
    signals = Signals(lambda line: None)
    actor = Actor(tmp_path / "tiny", ["search.leaves=1"], signals, Progress("actor", None, "games"))
    save = actor._save
    monkeypatch.setattr(actor, "_save", lambda result: setattr(signals, "exit_signal", save(result) or signal.SIGTERM))
    with pytest.raises(Interrupted):
        actor.run()
    assert actor.selfplay.device.type == "cuda" and actor.shards == 1


@counted
def test_the_tab_thinks_on_the_device_with_kernels_that_were_tried(tmp_path: Path, monkeypatch) -> None:
    tried: list[tuple[str, int]] = []
    monkeypatch.setattr(tuning, "prove_kernels", lambda device, size, *_: tried.append((device.type, size)))
    monkeypatch.setattr(tuning, "ask", lambda *_: [{"fault": "is not tried here"}])
    checkpoint.save(tmp_path / "a.pt", tiny.fresh_checkpoint(tiny.config()))
    asked = {"networks": [str(tmp_path / "a.pt")], "position": {"size": 3, "moves": []}, "visits": 4, "on_device": True}
    cache = jobs.JobCache()
    with kernels.plain(), pytest.warns(UserWarning, match="bfloat16 is not tried here on this GPU"):
        *_, last = jobs.think(cache, asked)
    thinks_on = cache.session(asked["networks"][0], cache.game(asked["position"]), True).analyst.device.type
    assert last["visits"] >= 4 and thinks_on == "cuda" and ("cuda", 3) in tried


@on_cuda
@pytest.mark.parametrize("name", kernels.NAMES["cuda"])
def test_a_right_kernel_passes_its_trial_on_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if pretend_cuda:  # interpreted, on few games; strings are read one by one
        number = 2 if name in kernels.READERS else 5
        monkeypatch.setattr(trials, "drawn_games", partial(trials.drawn_games, number=number))
    assert trials.kernel(name, "cuda", 3) == {}


@counted
def test_precision_is_tried_on_the_device() -> None:
    sections = {name: of for name, of in tiny.config().to_dict().items() if name in ("network", "features", "game")}
    with kernels.plain(), patch.multiple(tuning, ROUNDS=1, ROUND_SECONDS=0.0), patch.object(trials, "TURNS", 1):
        rates = trials.precision(sections, "cuda")
    assert rates.keys() == {"float32", "bfloat16"} and all(min(pair) > 0 for pair in rates.values())


# The parts

TERRITORY = Rules(3, -3.0, "simple", scoring="territory")
RULES = [Rules(4, 0.5, "positional"), Rules(4, 0.0, "situational", suicide=True), TERRITORY]
# Encoders without tactics and ladders, which torch alone has from the CPU's loops.
ON_THE_DEVICE = [
    "zero17",
    [group for group in ENCODERS["article22"] if group != "ko_takes"],
    [group for group in ENCODERS["katago22"] if "ladder" not in group and "liberties" not in group],
    ["stones", "sensible", "turns_since", "pattern", "makes_eye", "edge_distance", "scaled_edge_distance"],
]
EACH_RULE = pytest.mark.parametrize("rules", [*RULES, RULES], ids=["positional", "situational", "territory", "mixed"])
# Interpreted kernels take long; that they wait for nothing shows in self-play.
BY_KERNELS = nullcontext if pretend_cuda is None else kernels.plain


def games(rules: Rules | list[Rules], num_games: int = 6) -> board.State:
    kinds = rules if isinstance(rules, list) else [rules]
    return after_random_moves([kinds[i % len(kinds)] for i in range(num_games)], 6, move_cap=40)


@on_cuda
@EACH_RULE
def test_moves_on_the_board_wait_for_nothing(rules: Rules | list[Rules]) -> None:
    expected = games(rules)
    state = expected.to(CUDA)
    for turn in range(3):
        with BY_KERNELS(), no_waiting() if turn else nullcontext():  # tables and kernels are made once
            state = board.step_(state, board.legal_actions(state).to(torch.int8).argmax(1))
        expected = board.step_(expected, board.legal_actions(expected).to(torch.int8).argmax(1))
    assert torch.equal(state.stones.cpu(), expected.stones) and torch.equal(state.hash.cpu(), expected.hash)


@on_cuda
@pytest.mark.parametrize("settings", [PUCT, dataclasses.replace(GUMBEL, leaves=4)], ids=["puct", "gumbel"])
def test_simulations_wait_for_nothing(settings: SearchConfig) -> None:
    """And find what the CPU finds, with a graph where there are kernels."""
    made, most = Search(TableEvaluator(), settings), 3 if pretend_cuda else 6
    state, budgets = games(RULES), torch.tensor([6, 0, 3, 6, 5, 6]).clamp(max=most)
    expected = made.run(state, budgets, seed=1).visits
    index, on_device = torch.arange(6, device=CUDA), state.to(CUDA)
    with BY_KERNELS():
        made.run(on_device, 2)
        search_state = made.init(on_device, most)
        made.begin(search_state, index, budgets.cuda(), seed=1)
        for step in range(most + 1):  # a capture waits, once, when the steps before it have been watched
            with no_waiting() if pretend_cuda or step > graph.WARM_UP else nullcontext():
                made.simulate(search_state)
        assert torch.equal(made.result(search_state, index).visits.cpu(), expected)


@on_cuda
def test_games_that_stay_keep_their_trees_without_waiting() -> None:
    state, made = games(RULES[0]).to(CUDA), Search(TableEvaluator(), dataclasses.replace(GUMBEL, keep_tree=False))
    with BY_KERNELS():
        search_state, index = made.run(state, 4).search_state, torch.arange(6, device=CUDA)
        with no_waiting():
            made.advance(search_state, index, torch.where(index < 3, 0, -1), state)
    assert (search_state.tree.size > 0).tolist() == [False] * 3 + [True] * 3


@on_cuda
@pytest.mark.parametrize("groups", ON_THE_DEVICE, ids=lambda groups: groups if isinstance(groups, str) else groups[1])
def test_evaluations_wait_for_nothing(groups: str | list[str]) -> None:
    """And say what they say on the CPU."""
    encoder, expected_state = make_encoder(groups, True), games(RULES)
    state, keys = expected_state.to(CUDA), torch.arange(6)
    legal, on_device = board.legal_actions(expected_state), keys.to(CUDA)
    with BY_KERNELS():
        for symmetries in SYMMETRIES:
            evaluator, expected = (network_evaluator(encoder, device, symmetries) for device in (CUDA, "cpu"))
            legal_there = board.legal_actions(state)
            evaluator(state, legal_there, on_device)
            with no_waiting():
                found = evaluator(state, legal_there, on_device)
            wanted = expected(expected_state, legal, keys)
            assert torch.allclose(found.prior.cpu(), wanted.prior, atol=1e-3)
            assert torch.allclose(found.value.cpu(), wanted.value, atol=1e-3)


@on_cuda
@pytest.mark.parametrize(
    "preset", ["alphago48", "article48", "handcrafted", pytest.param("katago22", marks=pytest.mark.slow)]
)
def test_kernels_read_ladders_without_waiting(preset: str) -> None:
    pytest.importorskip("triton")
    state, evaluator = games(Rules(3, 0.5), 1).to(CUDA), network_evaluator(make_encoder(preset, True), CUDA, "none")
    evaluator(state)
    with no_waiting():
        evaluator(state)


@on_cuda
@pytest.mark.parametrize("size", [1, 9])
def test_the_copy_for_playing_agrees_on_any_memory(size: int) -> None:
    """cuDNN, too, takes nothing from the memory that it writes to."""
    network = tiny.network(tiny.config("network.channels=32"), is_sharp=True)
    boards = 8 if pretend_cuda else 64  # interpreted kernels take long
    planes, numbers = torch.rand(boards, network.num_planes, size, size), torch.rand(boards, network.num_globals)
    expected = inference_copy(network)(planes, numbers)
    for dtype, tolerance in ((torch.float32, 0.005), (torch.bfloat16, 0.05)):  # convolutions are in TF32
        playing = inference_copy(network, CUDA, dtype)
        leftovers = [torch.full((boards, 32, size, size), torch.nan, dtype=dtype, device=CUDA) for _ in range(8)]
        del leftovers
        for name, output in playing(planes.to(CUDA), numbers.to(CUDA)).items():
            assert (output.cpu() - expected[name]).norm() < tolerance * expected[name].norm(), name


@counted
def test_operations_that_take_a_fixed_number_of_launches() -> None:
    """A symmetry, an evaluation by playouts, and all that follows a convolution."""
    pytest.importorskip("triton")
    keys, network = torch.arange(2, device=CUDA), tiny.network(tiny.config())
    playing = inference_copy(network, CUDA)
    states, legal = board.new_games(2, Rules(2, 0.5), CUDA), torch.ones(2, 5, dtype=torch.bool, device=CUDA)
    inputs = torch.rand(3, network.num_planes, 3, 3).cuda(), torch.rand(3, network.num_globals).cuda()
    for work, name, number in (
        (lambda: rng.below(8, 1, Purpose.SYMMETRY, keys), "key_kernel", 1),
        (lambda: PlayoutEvaluator()(states, legal, keys), "play_kernel", 1),
        (lambda: playing(*inputs), "finish_kernel", 4),
    ):
        work()
        with seen() as counts:
            work()
        assert counts.launches[name] == number and not counts.waits
