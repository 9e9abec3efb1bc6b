"""KataGo's JSON analysis protocol over any analyst, thousands of positions at once; `engine` answers its lines."""
