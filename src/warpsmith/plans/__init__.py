"""Run: Problem x Device -> store -> Plan. Look-ups, callable winners, exported bundles."""
