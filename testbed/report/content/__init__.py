"""What a report contains: figures of the run as plain values, tables and wording."""
