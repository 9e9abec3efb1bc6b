"""Tables of inputs and what must come of them: data/tables/NAME.json holds one for each test that runs over it."""

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def tables(name: str) -> dict[str, Any]:
    """Returns the tables of a subject by their titles."""
    return json.loads((DATA / "tables" / f"{name}.json").read_text("utf-8"))
