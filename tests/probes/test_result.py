from elmo.probes.result import ProbeResult

RESULT = ProbeResult(
    "made", "score", ("a", "b"), {"one": (1.26, None), "two": (3, 40.0)}, {"words": 1200, "by": "x"}
)


def test_a_table_has_a_row_per_name_and_the_settings_below():
    assert RESULT.to_markdown().splitlines() == [
        "| score | a | b |",
        "|---|---|---|",
        "| one | 1.3 |  |",
        "| two | 3.0 | 40.0 |",
        "",
        "words 1,200, by x",
    ]


def test_plain_values_are_by_row_and_column():
    mapping = RESULT.to_mapping()
    assert mapping["rows"]["one"] == {"a": 1.26, "b": None}
    assert mapping["settings"] == {"words": 1200, "by": "x"}
