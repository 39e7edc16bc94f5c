"""What every paper's package is made of: runs, searches, results, verdicts, chapters."""
