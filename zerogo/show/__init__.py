"""Pictures of positions: `python -m zerogo.show FILE.sgf --move 40 --what policy,ownership --checkpoint X`, as PNG, as
GIF or as text.

`scenes` brings the positions, `views` draws what is thought of one, `__main__` reads the arguments.
"""
