"""The span table as analyses ask for it: its rows, CTAs, pieces, sums and corrected durations."""
