"""A tab "Go" in TensorBoard: the runs below its log directory, their games on a board, what networks think of a
position, games against them, and how a run is doing.

    entry.py     what TensorBoard finds by its entry point: the routes, with their refusals
    folder.py    which runs, games and networks there are; without torch, so that TensorBoard stays small
    worker.py    a process of its own at a low priority, which has torch, and answers one request after another
    jobs.py      what can be asked of it, over the package's own doors
    page/        plain JavaScript modules, SVG and one style sheet, as they are

The server may be reached by others. It reads nothing outside the log directory, links resolved, and writes nothing but
SGF files of games that were played here; networks are loaded as weights alone; visits, boards, games, requests and
their bodies are bounded; a browser's request from another page, or by a name that is not this machine's, is refused."""
