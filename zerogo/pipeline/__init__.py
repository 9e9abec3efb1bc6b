"""The whole loop on one device: self-play, training and evaluation in turn, with its schedules, charts and resume."""

from zerogo.pipeline.measures import Matches
from zerogo.pipeline.run import train

__all__ = ["Matches", "train"]
