"""What reaches the terminal: warnings and worse with what continues them, once."""

from cue.log_view import LogTail


def test_only_what_matters_is_shown(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("[ERROR] [1.0] [a]: of an earlier run\n")
    tail = LogTail(log)
    with log.open("a") as file:
        file.write("[INFO] [1.0] [a]: fine\nsome library says hello\n[WARN] [2.5] [ns.a]: careful\nmore of it\n[INFO]")
    assert list(tail.new_lines()) == [("WARN", "careful"), ("", "more of it")]
    with log.open("a") as file:
        file.write(" [3.0] [a]: fine again\nquiet\nerror: world.yaml: no such file\n")
    assert list(tail.new_lines()) == [("", "error: world.yaml: no such file")]
    with log.open("a") as file:
        file.write("[DEBUG] [4.0] [a]: x\nTraceback (most recent call last):\n  File x\nValueError: y")
    assert [text for _, text in tail.new_lines()] == ["Traceback (most recent call last):", "  File x"]
    assert [text for _, text in tail.new_lines(final=True)] == ["ValueError: y"]
    assert list(tail.new_lines(final=True)) == []


def test_a_log_that_is_not_there_yet_has_no_lines(tmp_path):
    assert list(LogTail(tmp_path / "none.log").new_lines()) == []
