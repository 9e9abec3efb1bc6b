"""The one exception that means: the person who started this gave something that can't be used."""


class InputError(ValueError):
    """Bad input (config key, checkpoint, shard, SGF, argument): one sentence that names the value, the place and what
    is allowed.

    Scripts print the sentence to stderr and exit with status 2; a traceback is never shown for it."""
