"""The presets: the input encodings of the literature as lists of groups."""

from __future__ import annotations

ENCODERS: dict[str, tuple[str, ...]] = {
    # Silver et al., "Mastering the game of Go without human knowledge", 2017.
    "zero17": ("history:7", "colour"),
    # Silver et al., "Mastering the game of Go with deep neural networks and tree search", 2016, Extended Data Table 2.
    "alphago48": (
        "stones",
        "empty",
        "on_board",
        "turns_since:8",
        "liberties:8",
        "capture_size:8",
        "self_atari_size:8",
        "liberties_after:8",
        "ladder_capture",
        "ladder_escape",
        "sensible",
        "zeros:1",
    ),
    # KataGo, version 7 of its inputs; what its planes 7, 8, 20 and 21 tell zerogo's rules do not have.
    "katago22": (
        "on_board",
        "stones",
        "few_liberties:3",
        "bans",
        "zeros:2",
        "last_moves:5",
        "laddered:3",
        "ladder_capture",
        "area",
        "zeros:2",
        "last_passes:5",
        "katago_komi",
        "katago_rules",
        "komi_parity",
    ),
    # Two tutorial articles, which describe other planes under the names of the two above.
    "article48": (
        "colours",
        "empty",
        "colour_history:7",
        "own_liberties:4",
        "opponent_liberties:4",
        "capture_size:4",
        "opponent_capture_size:4",
        "own_ladders",
        "opponent_ladders",
        "legal",
        "edge_distance:4",
    ),
    "article22": ("colours", "empty", "on_board", "colour", "last_moves:5", "ko", "ko_takes", "rule_planes"),
    # What programs before the networks looked at; no stones: a network wants `stones` beside it.
    "handcrafted": (
        "pattern",
        "captures",
        "connects",
        "makes_eye",
        "scaled_liberties_after",
        "scaled_weakest",
        "scaled_edge_distance",
    ),
}
# AlphaGo's value network saw one plane more than its policy network.
ENCODERS["alphago49"] = (*ENCODERS["alphago48"], "colour")
