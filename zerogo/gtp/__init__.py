"""GTP 2: zerogo as an engine for the programs that Go players use.

    zerogo gtp --checkpoint checkpoints/quickstart-5x5.pt
    python -m zerogo.gtp --checkpoint mcts:200 --rules chinese --komi 6.5 game.size=9

`protocol` is lines in and replies out, `engine` what the commands act on and how they are declared, `commands` the loop
and most commands; those that choose, analyse and show moves are in `genmove`, `analyze` and `gogui`."""
