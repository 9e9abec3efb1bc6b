"""Pictures of positions as PNG, GIF or text: `zerogo show FILE.sgf --move 40 --what policy --checkpoint X`."""
