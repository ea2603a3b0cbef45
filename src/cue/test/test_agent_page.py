"""The page of a language-model agent's session."""

from cue.cli import main
from cue_agent.journal import Journal
from cue_agent.llm.limits import Usage
from cue_agent.llm.registry import Picture, Reply
from cue_agent.llm.transcript import Transcript


def test_a_session_becomes_one_page(tmp_path, capsys):
    journal = Journal(tmp_path)
    journal.begin(instruction="explain <this> table", shots=4, held_out_shots=1, seed=0, planner="llm")
    talk = Transcript(str(tmp_path), 1)
    talk.write("begin", provider="anthropic", model="claude-opus-5-5")
    talk.said("Begin.")
    content = [
        {"type": "thinking", "thinking": "where to begin", "signature": "s"},
        {"type": "text", "text": "I look first."},
        {"type": "tool_use", "id": "a", "name": "look", "input": {"image": True}},
    ]
    talk.heard(content, "tool_use", Usage(read=100, written=20))
    talk.result("a", "look", Reply({"balls": []}, (Picture(b"\x89PNG", "the table"),)))
    talk.write("refused", tool="execute_shot", arguments='{"speed": 9}', limit="arguments", message="speed is 9")
    journal.write("note", what="taken_over", reason="budget")
    talk.write("taken_over", why="budget", text="limit money")
    assert main(["agent", "replay", str(tmp_path)]) == 0
    page = (tmp_path / "agent.html").read_text()
    assert capsys.readouterr().out.strip() == str(tmp_path / "agent.html")
    for said in (
        "explain &lt;this&gt; table",
        "where to begin",
        "I look first.",
        "look {&#34;image&#34;: true}",
        "120 tokens",
    ):
        assert said in page
    assert page.index("I look first.") < page.index("look answered") < page.index("refused by limit arguments")
    assert "data:image/png;base64,iVBORw==" in page and "limit money" in page


def test_a_run_without_a_model_has_no_page(tmp_path, capsys):
    assert main(["agent", "replay", str(tmp_path)]) == 2
    assert "holds no transcript" in capsys.readouterr().err
    assert main(["agent", "fly", str(tmp_path)]) == 2
