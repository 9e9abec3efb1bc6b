"""Matches: players meet in many games at once, and what comes of it is counted, rated and written down."""

from zerogo.arena.match import cap_for, play_match
from zerogo.arena.result import MatchResult
from zerogo.arena.tournament import evaluate

__all__ = ["MatchResult", "cap_for", "evaluate", "play_match"]
