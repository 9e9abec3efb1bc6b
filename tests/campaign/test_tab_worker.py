"""The process that thinks for the TensorBoard tab: it streams, stops when nobody listens, and starts again."""

from pathlib import Path

import pytest
import tab_runs

from zerogo.tensorboard_plugin import entry

NEW = "tiny/checkpoints/step-00000009.pt"
POSITION = {"size": 5, "komi": 0.5, "moves": [["b", 6], ["w", 8]]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tab_runs.make_log_directory(tmp_path / "logs")


def test_the_worker_streams_stops_and_starts_again(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(entry, "HEARTBEAT_SECONDS", 0.1)
    (root / "torch.py").write_text("raise SystemExit")
    monkeypatch.chdir(root)  # TensorBoard may be started anywhere, and nothing there is imported
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    worker = entry.JobProcess()
    fields = {"position": POSITION, "networks": [str(root / NEW)], "visits": 10_000}
    first = worker.ask("think", fields, "me")
    assert any(part.get("visits") for part in first), "a search streams in"
    second = worker.ask("think", fields | {"visits": 5, "cancel": 0, "id": 0, "job": ""}, "me")
    parts = [next(second)]
    assert not any("error" in part for part in first), "a later request of the same page ends the earlier one"
    assert 5 <= [part["visits"] for part in [*parts, *second] if "visits" in part][-1] < 10_000
    third = worker.ask("think", fields)
    next(part for part in third if part.get("visits"))
    third.close()  # as a connection that is gone
    assert worker.one("play_move", {"position": POSITION})["next"] == "b"
    fourth, process = worker.ask("think", fields), worker._process
    next(part for part in fourth if part.get("visits"))
    process.kill()
    with pytest.raises(entry.InputError, match="starts it again"):
        list(fourth)
    worker.start()
    with monkeypatch.context() as impatient:
        impatient.setattr(entry, "REQUEST_SECONDS", 0.0)
        with pytest.raises(entry.InputError, match="no answer within 0 s"):
            worker.one("play_move", {"position": POSITION})
    assert worker._process is not process
    assert worker._room._value == entry.MOST_WAITING, "no request holds its place after its end"
    worker._process.kill()
