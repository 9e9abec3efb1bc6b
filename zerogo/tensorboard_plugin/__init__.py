"""A tab "Go" in TensorBoard: the runs below its log directory, their games on a board, evaluations and searches of
positions, games against networks, and the state of a run.

Other machines may reach the server. It reads no files outside the log directory, links resolved, and writes only SGF
files of games that were played in the tab; networks are loaded as weights alone; visits, boards, games and bodies of
requests are bounded; a browser's request from another page, or by a name that is not this machine's, is refused."""
