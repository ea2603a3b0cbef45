"""Launch arguments: what is wrong is said in one line that names what is allowed."""

import pytest

from cue.arguments import Argument, ArgumentError, parse_all, split_assignments, table_of

ARGUMENTS = (
    Argument("seed", "0", "of chance", "integer", (), 0, 10),
    Argument("factor", "1.0", "speed", "number", (), 0.1, 2.0),
    Argument("headless", "true", "no window", "flag"),
    Argument("planner", "offline", "chooses", choices=("offline", "model")),
    Argument("namespace", "", "prefix", "namespace"),
)


def test_defaults_and_given_values_get_their_types():
    values = parse_all(ARGUMENTS, {"seed": "3", "headless": "False", "namespace": "/a/b_1/"[:-1]})
    assert values == {"seed": 3, "factor": 1.0, "headless": False, "planner": "offline", "namespace": "a/b_1"}
    assert isinstance(values["factor"], float)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("seed", "one", "an integer from 0 to 10"),
        ("seed", "11", "an integer from 0 to 10"),
        ("seed", "-1", "an integer from 0 to 10"),
        ("factor", "nan", "a number from 0.1 to 2.0"),
        ("headless", "yes", "true or false"),
        ("planner", "chance", "one of offline, model"),
        ("namespace", "1a", "words joined by /"),
        ("namespace", "a//b", "words joined by /"),
        ("namespace", "a b", "words joined by /"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(name, text, says):
    with pytest.raises(ArgumentError, match=says) as caught:
        parse_all(ARGUMENTS, {name: text})
    assert f"{name}:={text}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_argument_is_refused_with_the_nearest_and_all_known():
    with pytest.raises(ArgumentError, match=r"did you mean seed.*known are seed, factor"):
        parse_all(ARGUMENTS, {"sed": "1"})


def test_assignments():
    assert split_assignments(["a:=1", "b:=x:=y", "a:=2", "c:="]) == {"a": "2", "b": "x:=y", "c": ""}
    for word in ("a=1", ":=1", "seed"):
        with pytest.raises(ArgumentError, match="name:=value"):
            split_assignments([word])


def test_the_table_names_every_argument_its_default_and_what_is_allowed():
    lines: list[str] = []
    table_of(ARGUMENTS, lines.append)
    text = "\n".join(lines)
    for argument in ARGUMENTS:
        assert f"'{argument.name}':" in text
        assert argument.description in text
        assert f"(default: {argument.default!r})" in text
