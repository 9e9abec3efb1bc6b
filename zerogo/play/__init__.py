"""Play in the terminal: a person against a bot, two people, or two bots. `zerogo play --help` says how."""
