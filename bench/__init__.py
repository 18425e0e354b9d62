"""The benchmark: the same works on Placet and on other contenders, side by side in one run."""
