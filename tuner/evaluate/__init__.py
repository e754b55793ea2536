"""From a compiled candidate to a measurement: verified against float64, then timed, on a device of its own."""
