"""zerogo teaches itself Go: thousands of games in one set of tensors, a batched tree search guided by a network, and
the loop around them.

Letters of the shapes, the same everywhere: B games, N board side, P = N*N points, A = P + 1 actions (the last is pass),
M nodes of a tree, C planes, S symmetries, H remembered positions, T plies of a record. K is a subset of the games, or
the simulations of one step; X boards that are no batch of games. D is levels of a path, W words that something is
packed into, G games of a match. An encoder has g inputs that are one number a position, R planes made of bit rows and V
of values. Points are row-major from the top left. Values and scores belong to the side to move; absolute ones end in
`_black`. Colours: 0 empty, 1 black, 2 white."""

__version__ = "0.1.0"
