"""zerogo teaches itself Go: thousands of games in one set of tensors, a batched tree search guided by a network, and
the loop around them.

Shape letters, the same everywhere: B games, N board side, P = N*N points, A = P + 1 actions (the last is pass), M nodes
of a tree, C planes, S symmetries, H earlier positions, T plies of a record, D levels of a path, W words of a packed
position or sample, G games of a match. K is a subset of the games, or the simulations of one step; X is any number of
boards. An encoder has g global inputs, R planes from bit rows and V planes from values. Points are row-major from the
top left. Values and scores belong to the side to move; absolute ones end in `_black`. Colours: 0 empty, 1 black, 2
white."""

__version__ = "0.1.0"
