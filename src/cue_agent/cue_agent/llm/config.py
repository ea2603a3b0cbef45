"""Settings of the language-model agent."""

from __future__ import annotations

from dataclasses import dataclass

from cue_core.errors import CueError
from cue_core.settings import check_settings, setting

PROVIDERS = ("anthropic",)
THINKING = ("summarized", "omitted", "")
APPROVALS = ("auto", "every", "first", "never")


@dataclass(frozen=True)
class LlmConfig:
    """What the model may use and spend; nothing of it can be changed from within a conversation.

    The key is read from the environment alone (``ANTHROPIC_API_KEY``) and is no setting, so that no file holds it.
    """

    provider: str = setting("anthropic", f"of the model: {', '.join(PROVIDERS)}")
    model: str = setting("claude-opus-5-5", "name of the model as the provider has it")
    answer_tokens: int = setting(24_000, "of one answer at most, thoughts included", low=256, high=128_000)
    thinking: str = setting(
        "summarized", "how thoughts are shown: summarized, omitted; empty = a model that has no adaptive thinking"
    )
    turns: int = setting(200, "answers of a session", low=1, high=100_000)
    calls: int = setting(400, "tool calls of a session", low=1, high=100_000)
    tokens: int = setting(4_000_000, "read and written in a session, cached ones included", low=1000, high=10**9)
    money: float = setting(10.0, "spent in a session", "USD", 0.0, 1e6)
    price_in: float = setting(4.0, "of a million tokens read", "USD", 0.0, 1e4)
    price_out: float = setting(20.0, "of a million tokens written", "USD", 0.0, 1e4)
    price_cache_write: float = setting(5.0, "of a million tokens put into the cache", "USD", 0.0, 1e4)
    price_cache_read: float = setting(0.2, "of a million tokens read from it", "USD", 0.0, 1e4)
    seconds: float = setting(7200.0, "of a session that the model may take to answer, in sum", "s", 1.0, 1e6)
    patience: float = setting(60.0, "that one outage is waited for, all tries together", "s", 0.0, 3600.0)
    silence: float = setting(60.0, "without a byte, after which an answer counts as lost", "s", 0.05, 600.0)
    answer_timeout: float = setting(300.0, "of one answer", "s", 0.1, 3600.0)
    same_calls: int = setting(
        3, "times that the same call with the same arguments is carried out in a row", low=1, high=100
    )
    idle_turns: int = setting(2, "answers in a row that are cut off or call no tool", low=0, high=20)
    context_tokens: int = setting(
        120_000, "of a conversation that are sent at most; then old parts are summarised", low=4000, high=10**7
    )
    images: int = setting(4, "newest pictures that are sent at least; at most twice as many", low=0, high=100)
    web_domains: str = setting("", "that the provider's web search may look at, with commas; empty = no search")
    web_searches: int = setting(5, "of one answer", low=1, high=50)
    approval: str = setting("auto", "of strokes by a person: every, first, never; auto = first, never in simulation")
    approval_timeout: float = setting(
        600.0, "after which a stroke that nobody approved is not played", "s", 0.1, 86400.0
    )
    fits_per_shot: float = setting(1.5, "fits that a session may have for each of its shots", low=0.1, high=100.0)
    workbench: bool = setting(True, "the model may run Python of its own, where it can be isolated")
    workbench_seconds: float = setting(30.0, "of one run", "s", 0.1, 3600.0)
    workbench_memory: int = setting(1024, "of one run [MiB]", low=64, high=65536)
    workbench_disk: int = setting(64, "of one run [MiB]", low=1, high=4096)
    workbench_runs: int = setting(60, "of a session", low=0, high=10_000)

    def __post_init__(self) -> None:
        """Check bounds and words.

        Raises:
            CueError: naming the setting and what is allowed.
        """
        check_settings(self)
        for name, value, allowed in (
            ("provider", self.provider, PROVIDERS),
            ("approval", self.approval, APPROVALS),
            ("thinking", self.thinking, THINKING),
        ):
            if value not in allowed:
                raise CueError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")
        if not self.model.strip():
            raise CueError("model is empty; allowed is a name that the provider knows")

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the domains that may be searched."""
        return tuple(d.strip() for d in self.web_domains.split(",") if d.strip())
