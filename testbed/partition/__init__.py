"""The samples of each device, as the command ``data`` shows them: as a table, as JSON and as a heat map."""
