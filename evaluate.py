#!/usr/bin/env python3
"""`zerogo evaluate`, from a clone."""

import sys

from zerogo.__main__ import main

if __name__ == "__main__":
    main(["evaluate", *sys.argv[1:]])
