"""Play in the terminal: a person against a bot, two people, or two bots. `python -m zerogo.play --help` tells how.

`setup` makes the game and the bots that the command line asks for, `game` lets it be played and shows it."""
