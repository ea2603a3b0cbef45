"""The MuJoCo twin of a pool table, and the simulated world that stands in for a real one."""
