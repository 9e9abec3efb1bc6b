"""Play in the terminal: a person against a bot, two people, or two bots. `python -m zerogo.play --help` tells how.

`table` holds the game and what was thought of it, `seats` who plays, `screen` what is shown, `talk` the conversation
with a person."""
