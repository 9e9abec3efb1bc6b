"""Self-play as CUDA makes it, counted on the CPU with Triton's kernels interpreted: few launches and one wait for a
move, two where games end, none inside a simulation; and the games are the CPU's.

What the network's own forward launches does not count, nor what simulations launch (a CUDA graph replays those), nor
what is done with the host's own tensors: such functions are named in `ON_HOST` and made by what the host has."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tiny
import torch
from host_reads import host_reads
from interpreting import interpreted
from launches import Launches, as_on_cuda, launches

from zerogo import kernels, rng
from zerogo.evaluator import Evaluator
from zerogo.features import make_encoder
from zerogo.kernels import copies
from zerogo.rng import Purpose
from zerogo.search import Search
from zerogo.selfplay import SelfPlay, SelfPlayResult

ON_HOST = [(SelfPlay, "_process_readback"), (SelfPlay, "_collect"), (SelfPlay, "_new_games")]
ON_HOST += [(copies, "joined"), (copies, "parted")]
WORDS = ("game.size=3", "game.komi=0.5", "search.algorithm=gumbel", "search.max_considered=4", "selfplay.check_every=2")
WORDS = (*WORDS, "search.symmetry_leaf=random", "search.symmetry_root=random", "selfplay.opening_plies=0.1")


@pytest.fixture
def on_cuda(monkeypatch: pytest.MonkeyPatch, looks_nowhere: Callable[[], None]) -> None:
    """Takes the ways that CUDA takes, but for the host's own work, which is the CPU's."""
    pytest.importorskip("triton")
    module_for = kernels.module_for

    def by_host(function: Callable) -> Callable:
        def call(*arguments: Any, **named: Any) -> Any:
            with monkeypatch.context() as patch:
                patch.setattr(kernels, "module_for", module_for)
                return function(*arguments, **named)

        return call

    for owner, name in ON_HOST:
        monkeypatch.setattr(owner, name, by_host(getattr(owner, name)))
    as_on_cuda(monkeypatch)
    looks_nowhere()


def counted_moves(
    patch: pytest.MonkeyPatch, selfplay: SelfPlay, counted: Launches, waits: list[str]
) -> Iterator[tuple[Counter[str], list[str], int]]:
    """Makes one move after another; yields what each launched, where it waited, and how many games ended by it."""
    simulate, steps = Search.simulate, []

    def uncounted(function: Callable) -> Callable:
        def call(*arguments: Any, **named: Any) -> Any:
            before = len(waits)
            with counted.resting():
                result = function(*arguments, **named)
            del waits[before:]
            return result

        return call

    def step(*arguments: Any, **named: Any) -> None:
        before, seen = Counter(counted.found), len(waits)
        simulate(*arguments, **named)
        assert not waits[seen:], "a simulation waits"
        steps.append(counted.found - before)
        counted.found = before

    patch.setattr(Search, "simulate", step)
    for owner, name in ON_HOST:
        patch.setattr(owner, name, uncounted(getattr(owner, name)))
    network = selfplay.search.evaluator.network
    for evaluator in (selfplay.search.evaluator, selfplay.search.root_evaluator):
        evaluator.network = Uncounted(network, counted)
    while True:
        counted.found, waits[:], collected = Counter(), [], SelfPlayResult()
        selfplay._simulate(lambda: False)
        selfplay._move(selfplay.everyone, collected)
        assert max(map(Counter.total, steps)) <= 40
        if collected.moves:
            yield counted.found, list(waits), len(collected.lengths)


class Uncounted:
    """A network whose launches do not count."""

    def __init__(self, network: Any, counted: Launches) -> None:
        self.network, self.counted, self.dtype = network, counted, network.dtype

    def __call__(self, *arguments: Any) -> Any:
        with self.counted.resting():
            return self.network(*arguments)


@interpreted
@pytest.mark.parametrize(("simulations", "moves"), [(4, 6), pytest.param(32, 2, marks=pytest.mark.slow)])
def test_moves_launch_little_and_wait_once(
    simulations: int, moves: int, on_cuda: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the opening, where roots are evaluated as well, and later; before, there were 1,110 launches and 14 waits."""
    words = ("game.move_cap=5", "selfplay.slots=3", f"selfplay.full_simulations={simulations}", "selfplay.sgf_share=1")
    config = tiny.config(*WORDS, *words)
    encoder = make_encoder(config.features.encoder, config.features.komi_input)
    evaluator = Evaluator.from_network(tiny.network(config).eval(), encoder, heads=("policy", "value"))
    selfplay = SelfPlay(config.game, config.search, config.selfplay, evaluator, tiny.CPU, seed=1)
    kinds = []
    with launches(monkeypatch) as counted, host_reads() as waits:
        made = counted_moves(monkeypatch, selfplay, counted, waits)
        for found, waited, ended in [next(made) for _ in range(moves)]:
            kinds.append((found.total(), ended))
            assert found.total() <= (200 if ended else 60), found
            assert waited == ["cpu"] * (2 if ended else 1)
            assert found["make_kernel"] <= 1 and found["begin_kernel"] == found["result_kernel"] == 1
    numbers = [number for number, ended in kinds if not ended]
    assert moves < 5 or any(ended for _, ended in kinds) and min(numbers) < 40 < max(numbers)


@interpreted
def test_a_symmetry_is_one_launch(on_cuda: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = torch.arange(5)
    rng.below(8, 1, Purpose.SYMMETRY, keys)  # what is the same for all games is worked out once
    with launches(monkeypatch) as counted:
        rng.below(8, 1, Purpose.SYMMETRY, keys)
    assert counted.found == {"key_kernel": 1}


@interpreted
def test_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views and tensors of nothing are no launches; what torch makes of others is taken apart, always."""
    given, index = torch.rand(4, 6), torch.tensor([1, 2])
    cases: dict[Callable[[], Any], dict[str, int]] = {
        lambda: given[:, 1:3].unsqueeze(1).transpose(0, 1).expand(3, 4, 2).detach(): {},
        lambda: torch.empty(3) if len(given.new_zeros(0, 6)) else given.view(24): {},
        lambda: given.reshape(6, 4).t().reshape(24): {"clone": 1},
        lambda: given.to(torch.float64): {"_to_copy": 1},
        lambda: given.scatter(0, index.unsqueeze(0), given): {"scatter": 2},
        lambda: given.masked_fill(given > 0, 1.0): {"gt": 1, "masked_fill": 2},
        lambda: given.softmax(1).argmax(1): {"_softmax": 1, "argmax": 1},
    }
    for mode in (False, True):
        for work, wanted in cases.items():
            with torch.inference_mode(mode), launches(monkeypatch) as counted:
                work()
            assert counted.found == wanted


@interpreted
@pytest.mark.parametrize("keep_tree", [True, False])
def test_the_games_are_the_cpus(keep_tree: bool, on_cuda: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of two lengths, so that some games move while others go on; games that are over, resigned ones too, are
    taken in and replaced."""
    words = (*WORDS, "game.move_cap=6", "selfplay.slots=3", "selfplay.full_simulations=3", "selfplay.sgf_share=1")
    words = (*words, "selfplay.full_share=0.5", "selfplay.cheap_simulations=2", "selfplay.resign_share=0.5")
    config = tiny.config(*words, "selfplay.resign_min_ply=1", f"search.keep_tree={str(keep_tree).lower()}")

    def games(number: int) -> tuple[dict[int, tuple], dict[int, tuple]]:
        made = tiny.self_play(config, tiny.Table(), 2)
        made.resignation.threshold = -0.3
        found = made.play(number)
        samples = found.all_samples()
        learned = {}
        for game in samples.game.unique().tolist():
            own = samples.select((samples.game == game).nonzero().squeeze(1))
            learned[game] = (own.ply.tolist(), own.reply.tolist(), own.value.tolist(), own.rows.tolist())
        return {game.number: (game.moves, game.end, game.score_black) for game in found.games}, learned

    ours = games(4)
    monkeypatch.undo()
    wanted = games(8)
    assert len(ours[0]) >= 4 and {game[1] for game in ours[0].values()} >= {0, 1, 3}
    for one, other in zip(ours, wanted, strict=True):
        shared = one.keys() & other.keys()
        assert len(shared) >= 3 and all(one[number] == other[number] for number in shared)
