"""The whole loop on one device: self-play, training and evaluation in turn, with its schedules, charts and resume."""

from zerogo.pipeline.actors import watch
from zerogo.pipeline.generate import generate
from zerogo.pipeline.matches import Matches
from zerogo.pipeline.start import train

__all__ = ["Matches", "generate", "train", "watch"]
