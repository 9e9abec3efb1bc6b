"""Trains a network on the mean outputs of several networks, its teachers: how 9x9-from-g170.pt was made.

python docs/log/distil.py START OUT SEED MINUTES TEACHER[*WEIGHT],...

The teachers draw the moves of games from their mean policy, with up to five random moves first and 3 % later. Each
position is learned about once: the mean policy and value, and with small weights the owners of the points and the score
at the end of its game. The learning rate falls as a cosine; the averaged weights are written at the end."""

import math
import sys
import time
from dataclasses import replace

import torch

from zerogo import board, checkpoint, scoring, tuning
from zerogo.board import rng
from zerogo.evaluator import Evaluator
from zerogo.network.trainer import Trainer
from zerogo.replay import Samples, TrainingBatch
from zerogo.replay.samples import union
from zerogo.selfplay.opening import RandomPlayer, begin_games
from zerogo.selfplay.record import Recorder

GAMES, BATCH, REUSE, POOL = 128, 128, 1.2, 40_000
RATE, WARM_UP, LAST_SHARE = 3e-4, 4000, 0.02
HEADS = {"policy": 1.0, "value": 1.0, "ownership": 0.3, "score": 0.1}
DEVICE = torch.device("cpu")


class Teachers:
    """Several networks, which play and judge together. words: paths, each with its weight behind a star."""

    def __init__(self, words, game, seed):
        self.parts, self.game, self.seed = [], replace(game, move_cap=130), seed
        self.generator = torch.Generator().manual_seed(seed)
        for word in words.split(","):
            path, _, weight = word.partition("*")
            one = checkpoint.load_newest(path)
            evaluator = Evaluator.from_network(one.network(), one.encoder(), DEVICE, torch.bfloat16, "random")
            self.parts.append((float(weight or 1), evaluator))
        self.total = sum(weight for weight, _ in self.parts)

    @torch.inference_mode()
    def play(self, first):
        """Returns the samples of games, numbered from `first`."""
        numbers = torch.arange(first, first + GAMES)
        states = begin_games(self.game, numbers, self.seed, DEVICE)
        recorder = Recorder.empty(GAMES, int(states.cap.max()), states.board_size, DEVICE)
        opening, stopped = torch.randint(0, 6, (GAMES,), generator=self.generator), torch.zeros(GAMES, dtype=torch.bool)
        while len(going := (~states.finished & ~stopped).nonzero().squeeze(1)):
            here = states.select(going)
            prior, value = self._judge(here)
            chance = torch.rand(3, len(going), generator=self.generator)
            temperature = torch.where(here.ply < 30, 1.0, 0.6).unsqueeze(1)
            actions = torch.multinomial(prior ** (1 / temperature), 1, generator=self.generator).squeeze(1)
            wild = (here.ply < opening[going]) | (chance[0] < 0.03)
            if wild.any():
                some = here.select(wild.nonzero().squeeze(1))
                actions[wild] = RandomPlayer().choose(some, numbers[going][wild], self.seed)
            kept = (value.abs() <= 0.97) | (chance[1] < 0.4)  # fewer of decided positions
            fields = {"actions": actions, "policy": prior, "root_value": value, "policy_weight": kept.float()}
            recorder.write(going, here, game=numbers[going], network_step=torch.zeros_like(going), **fields)
            states = board.put_(states, going, board.step_(here, actions))
            stopped[going] |= (value.abs() > 0.98) & (chance[2] < 0.07)
        ends = *scoring.result_black(states), stopped & ~states.finished
        samples = recorder.samples(states.ply.to(torch.int64), *ends)
        return replace(samples, value=samples.root_value, reply=torch.full_like(samples.reply, -1))

    def _judge(self, states):
        legal, prior, value = board.legal_actions(states), 0, 0
        key = rng.key(states.hash, states.to_play, states.ply) + self.seed * 1_000_003
        for number, (weight, evaluator) in enumerate(self.parts):
            evaluation = evaluator(states, legal=legal, key=key + 7919 * number)
            prior, value = (
                mean + weight / self.total * new for mean, new in ((prior, evaluation.prior), (value, evaluation.value))
            )
        return prior, value


def main(start, out, seed, minutes, words):
    """Trains for some minutes."""
    tuning.set_up_cpu(1)
    begun, seed, seconds = time.time(), int(seed), 60 * float(minutes)
    student, generator = checkpoint.load_newest(start), torch.Generator().manual_seed(int(seed))
    game = replace(student.config.game, random_komi_share=0.4, komi_low=3.0, komi_high=11.0)
    teachers, pool, first = Teachers(words, game, seed), None, seed * 10**7
    settings = replace(student.config.training, batch=BATCH, learning_rate=RATE, ema_samples=30_000)
    trainer = Trainer(student.network(), student.encoder(), settings, HEADS, DEVICE, torch.bfloat16)
    trainer.start_from(student.averaged_weights)

    def _rate():
        share = min(1.0, (time.time() - begun) / seconds)
        warm = min(1.0, (trainer.samples + BATCH) / WARM_UP)
        return RATE * warm * max(LAST_SHARE, 0.5 * (1 + math.cos(math.pi * share)))

    def _batch(number):
        index = torch.randint(len(pool), (number,), generator=generator)
        samples, symmetry = pool.select(index), torch.randint(8, (number,), generator=generator)
        return TrainingBatch(samples.records(), symmetry, samples.board_size, union(samples.kinds()))

    trainer.learning_rate = _rate
    while time.time() < begun + seconds:
        new = Samples.of_records(teachers.play(first).records(), student.config.game.size)
        pool, first = new if pool is None else Samples.cat([pool, new]), first + GAMES
        pool = pool.select(torch.arange(max(0, len(pool) - POOL), len(pool)))
        for _ in range(int(REUSE * len(new) / BATCH)):
            trainer.step(_batch(BATCH), measures=False)
        print(f"{(time.time() - begun) / 60:.1f} min, {trainer.steps} steps", flush=True)
    trainer.refresh_statistics(_batch(256) for _ in range(32))
    weights = trainer.averaged.state_dict()
    new = {"step": student.step + trainer.steps, "weights": weights, "averaged_weights": weights, "trainer": {}}
    checkpoint.save(out, replace(student, **new))


if __name__ == "__main__":
    main(*sys.argv[1:])
