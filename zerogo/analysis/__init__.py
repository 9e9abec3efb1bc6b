"""KataGo's JSON analysis protocol over any analyst: queries on stdin, replies on stdout, thousands of positions
searched at once."""

from zerogo.analysis.engine import Engine, Limits
from zerogo.analysis.query import Query, QueryError
from zerogo.analysis.settings import Settings

__all__ = ["Engine", "Limits", "Query", "QueryError", "Settings"]
