"""Play in the terminal: a person against a bot, two people, or two bots. `python -m zerogo.play --help` tells how."""
