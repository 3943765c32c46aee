"""Settings: presets, errors and their messages, and round trips."""

import json
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from typing import Annotated, Literal

import pytest
import torch
from annotated_types import Gt
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError
from elmo.models.formats import bilm_options
from elmo.network.bilm import BiLM
from elmo.network.config import (
    PRESETS,
    BiLMConfig,
    CharCnnConfig,
    LstmConfig,
    original,
    preset,
    small,
    tiny,
)
from elmo.pretraining.config import PretrainConfig
from elmo.pretraining.config import read_config as pretraining_config
from elmo.settings import (
    Filters,
    Rate,
    Renamed,
    Seed,
    apply_sets,
    checked,
    from_mapping,
    raise_problems,
    read_toml,
    to_mapping,
)
from elmo.tasks import TASKS, find_task
from elmo.tasks.config import read_config as task_config
from tests.random_models import options


def n_parameters(config):
    with torch.device("meta"):
        return BiLM(config).n_parameters


def test_original_has_exactly_the_released_number_of_parameters():
    """The released file has 261 character vectors; our vector of "no character" is not learned."""
    assert n_parameters(original()) == 93_600_848


@pytest.mark.parametrize(("size", "millions"), [("small", 13.6), ("medium", 28.0)])
def test_other_released_sizes_have_the_released_number_of_parameters(size, millions):
    assert n_parameters(preset(size)) / 1e6 == pytest.approx(millions, abs=0.05)


@pytest.mark.parametrize("size", PRESETS)
def test_presets_survive_json(size):
    config = preset(size)
    assert from_mapping(BiLMConfig, json.loads(json.dumps(to_mapping(config))), "x") == config


@given(options())
def test_any_config_survives_json(drawn):
    config = bilm_options.read_options(drawn, "options.json")
    assert from_mapping(BiLMConfig, json.loads(json.dumps(to_mapping(config))), "x") == config


def test_an_unknown_preset_is_reported_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown size 'smal' \(did you mean 'small'\?\)"):
        preset("smal")


def test_an_unknown_key_is_reported_with_its_place_and_the_nearest():
    mapping = to_mapping(tiny())
    mapping["lstm"]["projecton_dim"] = 3
    with pytest.raises(ConfigError) as caught:
        from_mapping(BiLMConfig, mapping, "run.toml")
    message = str(caught.value)
    assert message.startswith("run.toml: unknown key 'lstm.projecton_dim'")
    assert "did you mean 'projection_dim'?" in message
    assert "\n" not in message


def test_an_unknown_key_far_from_all_others_is_reported_with_what_is_known():
    with pytest.raises(ConfigError, match=r"unknown key 'zzz'.*char_cnn, lstm, directions"):
        from_mapping(BiLMConfig, {"zzz": 1}, "run.toml")


def test_all_problems_are_reported_at_once():
    mapping = {"lstm": {"dim": "big", "n_layer": 2}, "char_cnn": {"activation": "gelu"}}
    with pytest.raises(ConfigError) as caught:
        from_mapping(BiLMConfig, mapping, "run.toml")
    message = str(caught.value)
    assert "lstm.dim is 'big', expected int" in message
    assert "unknown key 'lstm.n_layer' (did you mean 'n_layers'?)" in message
    assert "char_cnn.activation is 'gelu', expected relu or tanh" in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dim", 0),
        ("dim", 2.5),
        ("dim", True),
        ("dim", None),
        ("projection_dim", -1),
        ("n_layers", -1),
        ("cell_clip", -3.0),
        ("cell_clip", 0),
        ("cell_clip", float("nan")),
        ("projection_clip", "3"),
        ("has_skip_connections", 1),
    ],
)
def test_a_wrong_lstm_setting_is_refused_by_name(key, value):
    with pytest.raises(ConfigError, match=key):
        from_mapping(LstmConfig, {key: value}, "x")


@pytest.mark.parametrize(
    "setting",
    [
        {"filters": []},
        {"filters": [[1]]},
        {"filters": [[1, 2, 3]]},
        {"filters": [[0, 4]]},
        {"filters": [["1", 4]]},
        {"filters": 3},
        {"filters": [[7, 4]], "max_characters": 6},
        {"n_highways": -1},
        {"max_characters": 2},
        {"char_dim": 0},
    ],
)
def test_a_wrong_token_layer_setting_is_refused_by_name(setting):
    with pytest.raises(ConfigError, match="filter|" + "|".join(setting)):
        from_mapping(CharCnnConfig, setting, "x")


@pytest.mark.parametrize("directions", [[], ["backward", "forward"], ["forward", "forward"]])
def test_directions_are_a_selection_in_one_order(directions):
    with pytest.raises(ConfigError, match="directions"):
        from_mapping(BiLMConfig, {"directions": directions}, "x")


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class Inner:
    rate: Annotated[Rate, "dropout", Renamed("drop")] = 0.5
    size: Annotated[int | None, Gt(0), "size"] = None
    layer: Annotated[Literal["top", 0, 1], "layer"] = "top"


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class Base:
    inner: Annotated[Inner, Renamed("inside")] = field(default_factory=Inner)
    seed: Annotated[Seed, Renamed("start")] = 1

    def __post_init__(self):
        if self.inner.size == self.seed:
            raise_problems(self, ["seed and inner.size are the same"])


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class Derived(Base):
    inner: Inner = field(default_factory=lambda: Inner(rate=0.1))
    filters: Filters = ((1, 8),)


def problems_of(mapping, kind=Derived):
    with pytest.raises(ConfigError) as caught:
        from_mapping(kind, mapping, "run.toml")
    return str(caught.value).removeprefix("run.toml: ").split("; ")


def test_values_out_of_bounds_are_reported_with_all_other_problems_of_all_groups():
    mapping = {"inner": {"rate": 1, "size": 0, "lair": 3}, "seed": -1, "filters": []}
    assert problems_of(mapping) == [
        "inner.rate is 1, expected float >= 0 and < 1",
        "inner.size is 0, expected int > 0",
        "unknown key 'inner.lair' (did you mean 'layer'?)",
        "seed is -1, expected int >= 0 and < 4,294,967,296",
        "filters is [], expected at least one",
    ]


@pytest.mark.parametrize("value", [10**18, 10**400, float("inf"), float("nan"), -(10**18)])
@pytest.mark.parametrize("size", PRESETS)
def test_absurd_numbers_are_refused_wherever_a_number_stands(size, value):
    def paths(mapping, *names):
        for name, inner in mapping.items():
            if isinstance(inner, dict):
                yield from paths(inner, *names, name)
            elif type(inner) is int or (type(inner) is float and abs(value) != 10**18):
                yield (*names, name)

    whole = to_mapping(PretrainConfig(model=preset(size)))
    for *groups, name in paths(whole):
        changed = to_mapping(PretrainConfig(model=preset(size)))
        reduce(getitem, groups, changed)[name] = value
        with pytest.raises(ConfigError, match=rf"{name} is .*, expected"):
            from_mapping(PretrainConfig, changed, "x")


def test_a_wrong_value_is_shown_in_one_short_line():
    (problem,) = problems_of({"seed": "x" * 1000})
    assert problem.startswith("seed is 'xxx")
    assert len(problem) < 200


def test_settings_made_in_python_are_checked_and_converted_too():
    with pytest.raises(ConfigError, match=r"Inner: rate is 2, expected .*; size is 'a', expected"):
        Inner(rate=2, size="a")
    with pytest.raises(ConfigError, match=r"Derived: seed and inner\.size are the same"):
        Derived(seed=3, inner=Inner(size=3))
    made = Derived(inner={"rate": 0}, filters=[[2, 3]])
    assert made == Derived(inner=Inner(rate=0.0), filters=((2, 3),))
    assert isinstance(made.inner.rate, float)


def test_true_is_no_layer_number():
    assert from_mapping(Inner, {"layer": 1}, "x").layer == 1
    assert problems_of({"layer": True}, Inner) == ["layer is True, expected top or 0 or 1"]


def test_a_renamed_key_is_an_error_that_gives_the_new_name():
    assert problems_of({"inside": {"drop": 0.2}, "start": 3}) == [
        "'inside' was renamed to 'inner'",
        "'inner.drop' was renamed to 'inner.rate'",
        "'start' was renamed to 'seed'",
    ]


def test_a_renamed_key_can_be_accepted_in_files_that_programs_wrote():
    old = {"inside": {"drop": 0.2}, "start": 3}
    made = from_mapping(Derived, old, "task.json", accept_old=True)
    assert made == Derived(inner=Inner(rate=0.2), seed=3)


@pytest.mark.parametrize(
    ("entry", "new"),
    [
        ("optimiser.kind=adagrad", "optimizer"),
        ("optimizer.clip_norm=1", "optimizer.max_grad_norm"),
        ("stream.n_rows=4", "stream.batch_size"),
        ("stream.n_steps=4", "stream.bptt_length"),
        ("head.starts_from_frequencies=true", "head.init_bias_from_frequencies"),
    ],
)
def test_an_old_name_of_pretraining_is_an_error_with_the_new_one(entry, new):
    with pytest.raises(ConfigError, match=f"was renamed to '{new}'"):
        pretraining_config("tiny", None, [entry])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("entry", "new"),
    [
        ("optimiser.kind=adam", "optimizer"),
        ("optimizer.clip_norm=1", "optimizer.max_grad_norm"),
        ("optimizer.halve_after=1", "optimizer.lr_plateau_patience"),
        ("train.share=0.5", "train.train_fraction"),
    ],
)
def test_an_old_name_of_a_task_is_an_error_with_the_new_one(task, entry, new):
    with pytest.raises(ConfigError, match=f"was renamed to '{new}'"):
        task_config(find_task(task).defaults(), None, [entry])


def test_a_group_that_is_a_value_is_refused():
    with pytest.raises(ConfigError, match="lstm is 3, expected a group"):
        from_mapping(BiLMConfig, {"lstm": 3}, "x")


def test_an_absent_clip_is_none_and_a_whole_number_is_a_float():
    config = from_mapping(LstmConfig, {"cell_clip": None, "projection_clip": 5}, "x")
    assert config.cell_clip is None
    assert config.projection_clip == 5.0
    assert isinstance(config.projection_clip, float)


def test_settings_are_changed_by_name_without_touching_the_given_ones():
    mapping = {"lstm": {"dim": 4}}
    changed = apply_sets(
        mapping, ["lstm.dim=8", "lstm.cell_clip=none", "char_cnn.activation=tanh", "a.b.c=[1, 2]"]
    )
    assert changed == {
        "lstm": {"dim": 8, "cell_clip": None},
        "char_cnn": {"activation": "tanh"},
        "a": {"b": {"c": [1, 2]}},
    }
    assert mapping == {"lstm": {"dim": 4}}


def test_a_date_of_a_toml_file_is_reported_by_its_name(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[lstm]\ndim = 2024-01-01\n")
    with pytest.raises(ConfigError, match=r"lstm\.dim is .*2024.*, expected"):
        from_mapping(BiLMConfig, apply_sets(read_toml(path), ["lstm.n_layers=1"]), "x")


@pytest.mark.parametrize("entry", ["lstm.dim", "=3", "lstm.dim.x=3"])
def test_a_set_that_sets_nothing_is_refused(entry):
    with pytest.raises(ConfigError, match="--set"):
        apply_sets({"lstm": {"dim": 4}}, [entry])


def test_a_number_with_more_digits_than_python_reads_is_kept_as_text():
    assert apply_sets({}, [f"name={'9' * 5000}"]) == {"name": "9" * 5000}


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=10))
def test_any_value_of_a_set_is_read_or_kept_as_text(text):
    assert "name" in apply_sets({}, [f"name={text}"])


def test_toml_is_read_and_what_is_not_toml_is_reported(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[lstm]\ndim = 4\n")
    assert read_toml(path) == {"lstm": {"dim": 4}}
    path.write_text("[lstm\n")
    with pytest.raises(ConfigError, match=r"run\.toml: not TOML .*line 1"):
        read_toml(path)
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        read_toml(tmp_path / "none.toml")


def test_released_sizes_share_their_filters():
    assert original().char_cnn.n_filters == small().char_cnn.n_filters == 2048
