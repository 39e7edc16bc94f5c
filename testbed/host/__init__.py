"""The host: cores and priorities, kernel figures, energy meter, private folders, the survey and its calibration."""
