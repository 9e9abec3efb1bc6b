"""Self-play: B games that share each step of the search, recorded as samples to learn from."""

from zerogo.selfplay.generate import generate, write_games
from zerogo.selfplay.loop import SelfPlay
from zerogo.selfplay.opening import random_games
from zerogo.selfplay.record import EndReason, FinishedGame, SelfPlayResult

__all__ = ["EndReason", "FinishedGame", "SelfPlay", "SelfPlayResult", "generate", "random_games", "write_games"]
