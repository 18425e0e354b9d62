"""The demo: agents work and pause where it matters; a person decides, in the browser or in the terminal."""
