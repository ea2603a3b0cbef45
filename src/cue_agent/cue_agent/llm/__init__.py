"""A language model runs the session through tools; limits stand outside of it. See ``docs/agent-llm.md``."""
