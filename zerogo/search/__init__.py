"""Batched Monte Carlo tree search: the trees of all games in tensors, PUCT and Gumbel over any game and any
evaluator.
"""

from zerogo.search.games import Game, Go, Line
from zerogo.search.search import Search, SearchResult, tempered
from zerogo.search.search_state import SearchState

__all__ = ["SearchState", "Game", "Go", "Line", "Search", "SearchResult", "tempered"]
