"""Each operation's inputs, float64 references and peer libraries, for the tuner."""
