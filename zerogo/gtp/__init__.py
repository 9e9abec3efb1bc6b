"""GTP 2: zerogo as an engine for the programs that Go players use.

`protocol` is lines in and replies out, `engine` what the commands act on and how they are declared, `commands` the loop
and most commands; those that analyse and show moves are in `analyze`."""
