#!/usr/bin/env python3
"""`zerogo selfplay`, from a clone."""

import sys

from zerogo.__main__ import main

if __name__ == "__main__":
    main(["selfplay", *sys.argv[1:]])
