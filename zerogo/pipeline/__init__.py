"""The whole loop on one device: self-play, training and evaluation in turn, with its schedules, charts and resume."""

from zerogo.pipeline.actors import generate, watch
from zerogo.pipeline.matches import Matches
from zerogo.pipeline.start import train

__all__ = ["Matches", "generate", "train", "watch"]
