"""Engines outside this process that speak GTP: started, asked for moves in many games at once, and held to the
rules."""

from zerogo.players.external.engine import EngineFault, EngineProcess
from zerogo.players.external.player import KINDS, ExternalPlayer, find, is_external

__all__ = ["KINDS", "EngineFault", "EngineProcess", "ExternalPlayer", "find", "is_external"]
