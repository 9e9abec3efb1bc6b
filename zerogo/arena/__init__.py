"""Matches: players meet in many games at once; the results are counted, rated and written to files."""

from zerogo.arena.match import MatchHooks, MatchSettings, cap_for, play_match
from zerogo.arena.result import MatchResult
from zerogo.arena.tournament import evaluate

__all__ = ["MatchHooks", "MatchResult", "MatchSettings", "cap_for", "evaluate", "play_match"]
