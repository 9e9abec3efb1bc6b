"""Self-play: B games in lock-step that never wait for each other, recorded as samples to learn from."""

from zerogo.selfplay.games import EndReason, SelfPlay, SelfPlayResult
from zerogo.selfplay.generate import generate, write_games
from zerogo.selfplay.warmup import random_games

__all__ = ["EndReason", "SelfPlayResult", "SelfPlay", "generate", "random_games", "write_games"]
