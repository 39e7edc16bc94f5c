"""The host: cores, control groups, kernel figures, memory, energy meter, and the time of one step."""
