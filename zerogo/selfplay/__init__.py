"""Self-play: B games that share each step of the search, recorded as training samples."""

from zerogo.selfplay.loop import SelfPlay
from zerogo.selfplay.opening import random_games
from zerogo.selfplay.record import EndReason, FinishedGame, SelfPlayResult, write_games

__all__ = ["EndReason", "FinishedGame", "SelfPlay", "SelfPlayResult", "random_games", "write_games"]
