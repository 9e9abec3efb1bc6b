"""From self-play to training: samples, the ring buffer with its window, and their files."""

from zerogo.replay.buffer import Replay, device_for, is_held_out, window
from zerogo.replay.samples import POSITIONS, Samples, TrainingBatch, layout
from zerogo.replay.shards import find_shards, load_shard, load_with_about, save_shard, shard_path

__all__ = [
    "POSITIONS", "Replay", "Samples", "TrainingBatch", "device_for", "find_shards", "is_held_out", "layout",
    "load_shard", "load_with_about", "save_shard", "shard_path", "window",
]  # fmt: skip
