"""Networks: zerogo's own residual tower, and KataGo's architecture with its network files."""

from zerogo.network.katago import KataGoNetwork
from zerogo.network.tower import HEADS, SCORE_SCALE, InferenceNetwork, MaskedNorm, Network, inference_copy, pool

__all__ = [
    "HEADS", "SCORE_SCALE", "InferenceNetwork", "KataGoNetwork", "MaskedNorm", "Network", "inference_copy", "pool",
]  # fmt: skip
