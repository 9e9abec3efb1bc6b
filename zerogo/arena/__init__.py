"""Matches: players meet in many games at once, and what comes of it is counted, rated and written down."""

from zerogo.arena.evaluation import evaluate
from zerogo.arena.match import cap_for, play_match, round_robin
from zerogo.arena.result import MatchResult

__all__ = ["MatchResult", "cap_for", "evaluate", "play_match", "round_robin"]
