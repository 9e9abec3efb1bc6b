"""Batched Monte Carlo tree search: the trees of all games in tensors, PUCT and Gumbel over any game and any
evaluator."""

from zerogo.search.game import Game, Go, SearchPath
from zerogo.search.search import Search, SearchResult, sample_moves
from zerogo.search.tree import SearchState

__all__ = ["Game", "Go", "Search", "SearchPath", "SearchResult", "SearchState", "sample_moves"]
