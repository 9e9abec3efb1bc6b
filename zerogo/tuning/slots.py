"""How many games are played at once, and how many leaves of a tree a step takes, where the settings leave that to the
machine (0).

Games come first: they fill the network's batch without changing what is searched. Several leaves a step make a search a
little weaker, so they only fill what memory, or the number of games that are wanted, leaves open."""

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from zerogo import board, kernels, tuning
from zerogo.config import Config, EvaluationConfig, GameConfig, SearchConfig, SelfplayConfig
from zerogo.evaluator import Evaluator
from zerogo.kernels.shared import WORDS_AFTER_ROWS
from zerogo.players.analyst import SIMULATIONS_A_LEAF
from zerogo.search.tree import Tree
from zerogo.selfplay import SelfPlay
from zerogo.selfplay.opening import RandomPlayer, begin_games
from zerogo.selfplay.record import Recorder
from zerogo.system import distributed, runtime

FEWEST, MOST = 64, 65536  # games; smaller batches than the least are not timed
MEMORY_SHARE = 0.4  # of the free memory; training and the network's buffers need the rest
PROCESS_BYTES = 2**30  # of another process with torch and a network: on a GPU its context and libraries, an estimate
DIFFERENT = 64  # positions that are measured; larger batches repeat them
PLIES_A_POINT = 0.4
LONGEST_MOVE = 2.0  # seconds of a whole move of all games, beyond which no more of them are tried
WHOLE_MOVES_SECONDS = 0.3  # of whole moves that are timed, at least one


def fit_to_device(
    game: GameConfig,
    search: SearchConfig,
    settings: SelfplayConfig,
    evaluator: Evaluator,
    device: torch.device,
    most_games: int = MOST,
    matches: EvaluationConfig | None = None,
) -> tuple[SearchConfig, SelfplayConfig, str]:
    """Returns the sections search and selfplay with numbers in place of selfplay.slots 0 and search.leaves 0, and why
    these; "" where both are set.

    The evaluator is timed on positions of random games in growing batches, then whole moves in half the batch that it
    takes and in larger ones, as the cost of a move beside the network comes once for all games. most_games: the largest
    number of any use. matches: settings of the background matches, which need memory, too."""
    games, leaves = settings.slots, search.leaves
    if games and leaves:
        return search, settings, ""
    if not games:
        most_games = max(1, min(most_games, _games_in_memory(game, search, settings, device, matches)))
    # Few leaves of a search with few simulations.
    fewest = settings.all_simulations[0]
    most_games, most_leaves = games or most_games, leaves or max(1, fewest // SIMULATIONS_A_LEAF)
    turned, limit = evaluator.with_symmetries(search.symmetry_leaf), most_games * most_leaves

    def _sections(size: int) -> tuple[SearchConfig, SelfplayConfig]:
        many = games or max(1, min(most_games, size // (leaves or 1)))
        several = leaves or min(most_leaves, max(1, size // many))
        return replace(search, leaves=several), replace(settings, slots=many)

    evaluated = _time_evaluations(turned, _random_positions(game, device), limit, search.cuda_graph)
    least, longest = max(1, evaluated.size // 2), LONGEST_MOVE / fewest
    whole = tuning.find_batch(
        lambda size: measure_moves(game, *_sections(size), evaluator, device), limit, least, patience=1, longest=longest
    )
    search, settings = _sections(whole.size)
    words = f"{settings.slots:,} games at once"
    words += f", {search.leaves} leaves of each tree in a step" if search.leaves > 1 else ""
    return search, settings, f"{words}: {whole.why('simulations/s of whole moves in batches')}; {evaluated.why()}"


def pick(
    config: Config, before: Config | None, evaluator: Callable[[], Evaluator], device: torch.device
) -> tuple[Config, str]:
    """Returns a run's config with selfplay.slots, of all ranks together, and search.leaves set, and why. before: the
    config of a resumed run, whose numbers stay. evaluator: makes that of self-play."""
    search, settings = config.search, config.selfplay
    if before is not None:
        search = replace(search, leaves=search.leaves or before.search.leaves)
        settings = replace(settings, slots=settings.slots or before.selfplay.slots)
    if not config.pipeline.plays:  # actors find out for themselves
        return config, ""
    local = replace(settings, slots=distributed.local_count(settings.slots))
    arguments = config.game, search, local, evaluator(), device
    search, alone, why = distributed.broadcast_from_rank0(lambda: fit_to_device(*arguments, matches=config.evaluation))
    settings = replace(settings, slots=settings.slots or alone.slots * distributed.world_size())
    return replace(config, search=search, selfplay=settings), why


def measure_moves(
    game: GameConfig, search: SearchConfig, settings: SelfplayConfig, evaluator: Evaluator, device: torch.device
) -> float:
    """Returns the simulations a second of whole moves. Games get different move caps, so that some end at each move, as
    in a run."""
    playing = SelfPlay(game, search, settings, evaluator, device, seed=0)
    plies = int(2 * PLIES_A_POINT * playing.states.board_size**2) + 1
    cap = torch.minimum(1 + playing.all_games % plies, playing.states.cap).to(playing.states.cap.dtype)
    playing.states = replace(playing.states, cap=cap)
    for seconds in (0.0, WHOLE_MOVES_SECONDS):  # the first move sets things up
        played = playing.play(MOST * plies, time.monotonic() + max(seconds, 1e-3))
    return played.simulations / played.seconds


def _random_positions(game: GameConfig, device: torch.device) -> board.State:
    """Returns games of the run after random moves, as encoders have more to do there than on empty boards."""
    numbers, player = torch.arange(DIFFERENT), RandomPlayer()
    states = begin_games(game, numbers, 0, device)
    for _ in range(int(PLIES_A_POINT * states.board_size**2)):
        states = board.step(states, player.choose(states, numbers.to(device), 0))
    return states


def _time_evaluations(evaluator: Evaluator, states: board.State, limit: int, has_graph: bool) -> tuning.BatchChoice:
    """Returns the batch that keeps the device busy, as a CUDA graph if a search does so and that is faster."""
    device = states.device
    legal = board.legal_actions(states)
    is_replayed = has_graph and kernels.module_for("tree", device) is not None
    legal[:, -1] = True  # in games that are over, too: an evaluator wants a move

    def _rate(size: int) -> float:
        key = torch.arange(size, device=device)
        some, moves = states.select(key % DIFFERENT), legal[key % DIFFERENT]

        return tuning.speed(lambda: evaluator(some, legal=moves, key=key), size, device, is_replayed)

    return tuning.find_batch(_rate, limit, FEWEST)


def bytes_of_game(game: GameConfig, search: SearchConfig, settings: SelfplayConfig) -> tuple[int, int]:
    """Returns the bytes of a tree's node, and of a game in flight: its tree and its record."""
    side, meta = game.largest_size, torch.device("meta")
    nodes = (2 if search.keep_tree else 1) * settings.all_simulations[-1] + 2  # as in `Search.init`
    tree = Tree.empty(1, nodes, side * side + 1, 3 * side + WORDS_AFTER_ROWS, meta)
    records = Recorder.empty(1, max(map(game.plies, game.all_sizes)), side, meta).tables.values()
    return tree.bytes_per_node, nodes * tree.bytes_per_node + sum(table.nbytes for table in records)


def _games_in_memory(
    game: GameConfig,
    search: SearchConfig,
    settings: SelfplayConfig,
    device: torch.device,
    matches: EvaluationConfig | None = None,
) -> int:
    """Returns for how many games there is memory, MOST if unknown. The memory of background matches is left free: a
    process, and a tree for each player of all their games."""
    if (free := runtime.free_bytes(device)) is None:
        return MOST
    bytes_per_node, bytes_per_game = bytes_of_game(game, search, settings)
    if matches is not None and (matches.every_minutes or matches.every_iterations):
        free -= PROCESS_BYTES + 2 * matches.games * matches.simulations * bytes_per_node
    ranks = distributed.local_rank_and_size()[1] if device.type == "cpu" else 1  # they share the rest
    return max(0, int(MEMORY_SHARE * free)) // (ranks * bytes_per_game)
