"""Conversations that show every command and every error of GTP, as they go from a fresh engine on 5x5 with a komi of
7.
"""

from __future__ import annotations

from zerogo import __version__

# A line with `> ` before it is sent; the lines below are the whole reply.
SCRIPTS = {
    "who is there": f"""
> protocol_version
= 2
> name
= zerogo
> version
= 0.17 (zerogo {__version__})
> known_command genmove
= true
> known_command lz-analyze
= true
> known_command analyze
= false
> known_command GENMOVE
= false
> known_command
? syntax error; write: known_command NAME
> frobnicate
? unknown command
> Name
? unknown command
> clear_cache
=
""",
    "board and komi": """
> boardsize 4
=
> query_boardsize
= 4
> komi 6.5
=
> play b A1
=
> boardsize 4
=
> list_stones b
=
> get_komi
= 6.5
> boardsize 5
=
> clear_board
=
> get_komi
= 6.5
> komi -3
=
> get_komi
= -3
> komi 1e1
=
> get_komi
= 10
> komi nan
? komi is 'nan'; allowed are numbers from -1000 to 1000
> komi 2000
? komi is '2000'; allowed are numbers from -1000 to 1000
> komi
? syntax error; write: komi POINTS
> boardsize 26
? unacceptable size
> boardsize 0
? unacceptable size
> boardsize -5
? unacceptable size
> boardsize 9 13
? unacceptable size
> boardsize 5 5
=
> boardsize five
? boardsize is 'five'; allowed are whole numbers from -1000000 to 1000000
> boardsize
? syntax error; write: boardsize N
> get_komi
= 10
> boardsize 1
=
> play b A1
? illegal move
> genmove b
= pass
> boardsize 25
=
> play b Z25
=
""",
    "moves": """
> play b C3
=
> play W d3
=
> play white c2
=
> play black pass
=
> play b resign
? invalid color or coordinate
> play w C3
? illegal move
> play b F1
? invalid color or coordinate
> play b I3
? invalid color or coordinate
> play b C0
? invalid color or coordinate
> play red C4
? invalid color or coordinate
> play b
? invalid color or coordinate
> play b C4 D4
? invalid color or coordinate
> play
? invalid color or coordinate
> last_move
= black pass
> move_history
= black pass
white C2
white D3
black C3
> list_stones white
= D3 C2
> list_stones B
= C3
> color C3
= black
> color d3
= white
> color A1
= empty
> color pass
? invalid color or coordinate
> color
? syntax error; write: color VERTEX
> list_stones
? syntax error; write: list_stones COLOUR
> is_legal b C3
= 0
> is_legal b A1
= 1
> is_legal b pass
= 1
> is_legal b
? syntax error; write: is_legal COLOUR VERTEX
> all_legal b
= A5 B5 C5 D5 E5 A4 B4 C4 D4 E4 A3 B3 E3 A2 B2 D2 E2 A1 B1 C1 D1 E1
> all_legal blue
? invalid color or coordinate
> undo
=
> last_move
= white C2
> gg-undo 2
=
> gg-undo
=
> last_move
? no previous move known
> move_history
=
> undo
? cannot undo
> gg-undo 1
? cannot undo
> gg-undo 0
=
> gg-undo many
? number of moves is 'many'; allowed are whole numbers from 0 to 1000000
""",
    "captures, ko and suicide": """
> gogui-play_sequence b B5 w A5 w B4 b A4
=
> captures b
= 1
> captures white
= 0
> captures
? syntax error; write: captures COLOUR
> list_stones w
= B4
> clear_board
=
> set_position b B3 b A2 b C2 b B1 w C3 w D2 w C1
=
> gogui-setup_player w
=
> play w B2
=
> play b C2
? illegal move
> play b E5
=
> play w E4
=
> play b C2
=
> play w B2
? illegal move
> showboard
=
   A B C D E
 5 . . . . X 5
 4 . . . . O 4
 3 . X O . . 3
 2 X .(X)O . 2
 1 . X O . . 1
   A B C D E
move 5, white to play; black has captured 1, white 1
komi 7; area scoring, positional superko, no suicide
> clear_board
=
> play b A4
=
> play b B5
=
> is_legal w A5
= 0
> play w A5
? illegal move
> play b A5
=
""",
    "showboard": """
> boardsize 2
=
> play b A1
=
> showboard
=
   A B
 2 . . 2
 1(X). 1
   A B
move 2, white to play; black has captured 0, white 0
komi 7; area scoring, positional superko, no suicide
> kata-set-rules new-zealand
=
> play w pass
=
> showboard
=
   A B
 2 . . 2
 1 X . 1
   A B
last move: pass
move 3, black to play; black has captured 0, white 0
komi 7; new-zealand: area scoring, situational superko, suicide allowed
""",
    "fixed handicap": """
> boardsize 9
=
> fixed_handicap 2
= C3 G7
> fixed_handicap 2
? board not empty
> clear_board
=
> fixed_handicap 9
= C3 G7 C7 G3 C5 G5 E3 E7 E5
> clear_board
=
> fixed_handicap 10
? invalid handicap
> fixed_handicap 1
? invalid handicap
> fixed_handicap 0
? invalid handicap
> fixed_handicap two
? invalid handicap
> fixed_handicap
? syntax error; write: fixed_handicap NUMBER, or place_free_handicap NUMBER
> play b A1
=
> fixed_handicap 3
? board not empty
> boardsize 5
=
> fixed_handicap 2
? invalid handicap
""",
    "free handicap": """
> set_free_handicap C3 b2
=
> list_stones b
= C3 B2
> set_free_handicap A1 A2
? board not empty
> clear_board
=
> set_free_handicap A1
? invalid handicap
> set_free_handicap
? invalid handicap
> set_free_handicap A1 A1
? repeated vertex
> set_free_handicap A1 pass
? invalid color or coordinate
> set_free_handicap A1 Z9
? invalid color or coordinate
> place_free_handicap 1
? invalid handicap
> place_free_handicap 25
? invalid handicap
> place_free_handicap 5
= C3 B4 D4 B2 D2
> place_free_handicap 5
? board not empty
> undo
? cannot undo
> play w A1
=
> boardsize 2
=
> set_free_handicap A1 A2 B1 B2
? invalid handicap
> set_free_handicap A1 A2 B1
=
> boardsize 9
=
> place_free_handicap 4
= C3 G7 C7 G3
""",
    "positions": """
> set_position b C3 w D4 W E5
=
> list_stones w
= E5 D4
> last_move
? no previous move known
> undo
? cannot undo
> fixed_handicap 2
? board not empty
> set_position b A1 w A1
? repeated vertex
> set_position b A1 w A2 w B1
? stones: the string on A1 has no liberty; every string needs one
> set_position b
? invalid color or coordinate
> set_position e A1
? invalid color or coordinate
> set_position b pass
? invalid color or coordinate
> list_stones b
= C3
> gogui-setup b A1 e C3 W B2
=
> list_stones b
= A1
> list_stones w
= E5 D4 B2
> gogui-setup w A2 w B1
? stones: the string on A1 has no liberty; every string needs one
> gogui-setup A1
? invalid color or coordinate
> gogui-setup_player w
=
> gogui-setup_player
? syntax error; write: gogui-setup_player COLOUR
> gogui-play_sequence w A3 b A4 w A3
? illegal move
> move_history
=
> gogui-play_sequence w A3 b A4 w PASS
=
> move_history
= white pass
black A4
white A3
> gogui-play_sequence w
? invalid color or coordinate
> set_position
=
> list_stones w
=
""",
    "clocks": """
> time_settings 300 30 5
=
> time_left b 20 0
=
> time_left W 12.5 3
=
> time_left b -1 0
=
> time_left b
? syntax error; write: time_left COLOUR SECONDS MOVES
> time_left red 3 3
? invalid color or coordinate
> time_left b x 0
? time is 'x'; allowed are numbers from -1e+07 to 1e+07
> time_left b 1 -1
? number of moves is '-1'; allowed are whole numbers from 0 to 1000000
> time_settings 1 2
? syntax error; write: time_settings MAIN PERIOD MOVES
> time_settings -1 0 0
? main time is '-1'; allowed are numbers from 0 to 1e+07
> time_settings 0 1 0
=
> kgs-time_settings none
=
> kgs-time_settings absolute 60
=
> kgs-time_settings byoyomi 60 10 5
=
> kgs-time_settings canadian 60 300 25
=
> kgs-time_settings byoyomi 60
? syntax error; write: kgs-time_settings none | absolute M | byoyomi M S PERIODS | canadian M S MOVES
> kgs-time_settings hourglass 60
? syntax error; write: kgs-time_settings none | absolute M | byoyomi M S PERIODS | canadian M S MOVES
> kgs-time_settings
? syntax error; write: kgs-time_settings none | absolute M | byoyomi M S PERIODS | canadian M S MOVES
""",
    "rules": """
> kata-get-rules
= {"ko":"POSITIONAL","scoring":"AREA","tax":"NONE","suicide":false,"hasButton":false,"whiteHandicapBonus":"0","friendlyPassOk":false}
> kata-set-rules new-zealand
=
> kata-get-rules
= {"ko":"SITUATIONAL","scoring":"AREA","tax":"NONE","suicide":true,"hasButton":false,"whiteHandicapBonus":"0","friendlyPassOk":false}
> kata-set-rule suicide false
=
> kata-set-rule ko SIMPLE
=
> kata-set-rule scoring territory
=
> kata-get-rules
= {"ko":"SIMPLE","scoring":"TERRITORY","tax":"NONE","suicide":false,"hasButton":false,"whiteHandicapBonus":"0","friendlyPassOk":false}
> kata-set-rules {"ko": "POSITIONAL", "scoring": "AREA", "suicide": true}
=
> kata-get-rules
= {"ko":"POSITIONAL","scoring":"AREA","tax":"NONE","suicide":true,"hasButton":false,"whiteHandicapBonus":"0","friendlyPassOk":false}
> get_komi
= 7
> kata-set-rules
? syntax error; write: kata-set-rules NAME, or an object such as that of kata-get-rules
> kata-set-rule suicide
? syntax error; write: kata-set-rule FIELD VALUE
> kgs-rules
? syntax error; write: kgs-rules japanese | chinese | aga | new_zealand
> kgs-rules ing
? there are no KGS rules 'ing'; allowed are japanese, chinese, aga, new_zealand
> kgs-rules new_zealand
=
""",
    "the end": """
> boardsize 3
=
> komi 0.5
=
> gogui-play_sequence b A2 w C2 b B2 w pass b B1 w C3 b B3 w pass
=
> final_score
= B+8.5
> final_status_list dead
= C3 C2
> final_status_list alive
= B3 A2 B2 B1
> final_status_list seki
=
> final_status_list
? syntax error; write: final_status_list alive | dead | seki
> final_status_list asleep
? invalid status
> clear_board
=
> komi 0
=
> final_score
= 0
> komi 0.5
=
> final_score
= W+0.5
> final_status_list dead
=
""",
    "settings": """
> kata-list-params
= allowResignation lagBuffer maxTime maxVisits resignThreshold
> kata-get-param maxVisits
= 8
> kata-set-param maxVisits 16
=
> kata-get-param maxVisits
= 16
> kata-get-param allowResignation
= true
> kata-set-param allowResignation false
=
> kata-get-param allowResignation
= false
> kata-get-param resignThreshold
= -0.9
> kata-set-param resignThreshold -0.8
=
> kata-get-param resignThreshold
= -0.8
> kata-get-param lagBuffer
= 0.3
> kata-set-param lagBuffer 1
=
> kata-get-param lagBuffer
= 1
> kata-get-param maxTime
= 1e+20
> kata-set-param maxTime 2.5
=
> kata-get-param maxTime
= 2.5
> kata-set-param maxTime 1e20
=
> kata-get-param maxTime
= 1e+20
> kata-set-param maxVisits 0
? maxVisits is '0'; allowed are whole numbers from 1 to 1000000000
> kata-set-param allowResignation maybe
? allowResignation is 'maybe'; allowed are true and false
> kata-set-param depth 3
? there is no parameter 'depth'; allowed are allowResignation, lagBuffer, maxTime, maxVisits, resignThreshold
> kata-get-param humanSLProfile
? there is no parameter 'humanSLProfile'; allowed are allowResignation, lagBuffer, maxTime, maxVisits, resignThreshold
> kata-get-param
? syntax error; write: kata-get-param NAME
> kata-set-param maxVisits
? syntax error; write: kata-set-param NAME VALUE
""",
    "servers": """
> cgos-opponent_name Anna the Great
=
> cgos-opponent_rating 1800?
=
> cgos-gameover 2024-01-01 B+Resign
=
> kgs-game_over
=
> kgs-chat game anna hello there
= I am zerogo mcts:8, a program that learned from its own games.
> kgs-chat
? syntax error; write: kgs-chat game | private NAME TEXT
> kgs-chat aloud anna hello
? syntax error; write: kgs-chat game | private NAME TEXT
> gogui-title
= zerogo mcts:8, 5x5, komi 7
> gogui-interrupt
=
""",
    "genmove": """
> genmove
? syntax error; write: genmove COLOUR
> genmove red
? invalid color or coordinate
> reg_genmove
? syntax error; write: reg_genmove COLOUR
> kgs-genmove_cleanup b w
? syntax error; write: kgs-genmove_cleanup COLOUR
> gogui-play_sequence b C3 w pass b pass
=
> genmove w
= pass
> loadsgf
? syntax error; write: loadsgf FILE [MOVE]
> quit
=
""",
}
