"""A tab "Go" in TensorBoard: the runs below its log directory, their games on a board, what networks think of a
position, games against them, and how a run is doing.

The server may be reached by others. It reads nothing outside the log directory, links resolved, and writes nothing but
SGF files of games that were played here; networks are loaded as weights alone; visits, boards, games and bodies of
requests are bounded; a browser's request from another page, or by a name that is not this machine's, is refused."""
