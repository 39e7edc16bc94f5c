"""Many runs one after another: all combinations of strategies, seeds and settings; a stopped sweep can continue."""
