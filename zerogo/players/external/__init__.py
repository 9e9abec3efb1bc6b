"""Engines outside this process that speak GTP: started, asked for moves in many games at once, and held to the
rules.
"""

from zerogo.players.external.player import ExternalPlayer
from zerogo.players.external.process import EngineFault, EngineProcess
from zerogo.players.external.programs import KINDS, find, is_external

__all__ = ["KINDS", "EngineFault", "EngineProcess", "ExternalPlayer", "find", "is_external"]
