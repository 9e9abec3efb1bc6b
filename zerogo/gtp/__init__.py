"""GTP 2: zerogo as an engine for the programs that Go players use.

`protocol` parses lines and writes replies; `engine` holds the state and declares commands; `commands` has the loop and
most commands, `analyze` those that analyse and show moves."""
