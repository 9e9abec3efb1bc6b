#!/usr/bin/env python3
"""`zerogo train`, from a clone."""

import sys

from zerogo.__main__ import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
