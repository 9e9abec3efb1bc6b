"""What self-play gave and training takes: samples, their ring buffer with its window and ratio, and their files."""

from zerogo.replay.buffer import VALIDATION_SHARE, Replay, is_held_out, window
from zerogo.replay.samples import Batch, Samples, position_fields
from zerogo.replay.shards import load_shard, save_shard

__all__ = [
    "VALIDATION_SHARE",
    "Batch",
    "Replay",
    "Samples",
    "is_held_out",
    "load_shard",
    "position_fields",
    "save_shard",
    "window",
]
