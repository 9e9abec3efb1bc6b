"""Moved to `zerogo.players.analyst`."""

from zerogo.players.analyst import Analysis, Candidate

__all__ = ["Analysis", "Candidate"]
