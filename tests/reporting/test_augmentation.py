"""What a report says of how data was made is true: it names every changed setting, and its command makes such data."""

import dataclasses
import shlex
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from scots.augmenters import AUGMENTERS
from scots.augmenters.embedding import ENCODERS
from scots.augmenters.scots import Scots
from scots.augmenters.settings import ScotsConfig
from scots.cli import main
from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import Meta, Trajectories
from scots.datasets import toy
from scots.datasets.specs import SPECS, spec_of
from scots.reporting.augmentation import AugmentationSettings, augment_command

DATA = toy.make(episodes=4)

CHANGED: dict[str, dict[str, Any]] = {
    "scots": {},
    "scots-paper": {},
    "scots, trajectories=400": {"trajectories": 400},
    "scots, stitching.candidates=3, stitching.novelty_weight=4.5": {
        "stitching.novelty_weight": 4.5,
        "stitching.candidates": 3,
    },
    "scots, encoder=raw, refine=False, stitching.distinct_episodes=True": {
        "refine": False,
        "encoder": "raw",
        "stitching.distinct_episodes": True,
    },
    "scots-paper, stitching.min_displacement=0.5, stitching.stitches=7": {
        "stitching.stitches": 7,
        "stitching.min_displacement": 0.5,
    },
    "scots, stitching.min_displacement=auto": {"stitching.min_displacement": "auto"},
    "scots, stitching.novelty_weight=0.123456789": {"stitching.novelty_weight": 0.123456789},
    "scots, embedding.training.steps=5": {"embedding.training.steps": 5},
    "scots, embedding.hidden=[8, 9]": {"embedding.hidden": [8, 9]},
    "scots, stitching.score_scale=raw, trajectories=3": {"trajectories": 3, "stitching.score_scale": "raw"},
}
"""Label -> what was changed from the settings of the augmenter that it begins with."""


def settings_of(
    config: ScotsConfig, name: str = "scots", seed: int = 0, data: Trajectories = DATA, profile="smoke"
) -> AugmentationSettings:
    """What data that an augmenter would make with a config says of itself, as its file keeps it."""
    meta = AUGMENTERS[name].job(data, config, seed, profile).meta
    return AugmentationSettings.of(dataclasses.replace(data, meta=Meta.from_json(meta.to_json())))


def changed(label: str) -> tuple[str, ScotsConfig]:
    """Name of the augmenter and its config with what the label names."""
    name = label.partition(",")[0]
    return name, AUGMENTERS[name].configure(spec_of(DATA), "smoke").replace_all(CHANGED[label])


# ------------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("label", CHANGED)
def test_the_label_names_the_augmenter_and_what_was_changed(label: str):
    name, config = changed(label)
    settings = settings_of(config, name, seed=3)
    assert settings.label == label
    assert settings.changes == CHANGED[label]
    assert (settings.augmenter, settings.profile, settings.seed) == (name, "smoke", 3)
    assert ScotsConfig.from_dict(settings.config) == config
    assert AugmentationSettings.from_json(settings.to_json()) == settings


def leaves(config: Config, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted path, value and type of every setting."""
    for field in dataclasses.fields(config):
        value, path = getattr(config, field.name), f"{prefix}{field.name}"
        if isinstance(value, Config):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value, get_type_hints(type(config))[field.name]


def other(value: Any, hint: Any) -> Any:
    """Another value of the same type, as JSON has it; numbers have more digits than are usually shown."""
    if get_origin(hint) is Literal:
        return next(choice for choice in get_args(hint) if choice != value)
    if isinstance(value, str):
        return next(name for name in ENCODERS if name != value)
    if value is None:
        return 1.23456789
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return [*value, 8]
    return value + 1 if isinstance(value, int) else value / 1.23456789 or 0.123456789


def every_change(config: ScotsConfig) -> list[dict[str, Any]]:
    """Each setting changed alone; the probabilities of goals, which must sum to 1, together."""
    goals = {"embedding.goals.trajectory": 0.375, "embedding.goals.random": 0.625}
    alone = [{path: other(value, hint)} for path, value, hint in leaves(config) if path not in goals]
    return [*(change for change in alone if "embedding.goals.current" not in change), goals]


@pytest.mark.parametrize("name", ["scots", "scots-paper"])
def test_no_changed_setting_is_passed_over(name: str):
    """Whatever is changed is in the label, and no two configs have one identity."""
    usual = AUGMENTERS[name].configure(spec_of(DATA), "smoke")
    seen = {settings_of(usual, name).config_fingerprint}
    for changes in every_change(usual):
        settings = settings_of(usual.replace_all(changes), name)
        assert settings.changes == changes
        assert all(path in settings.label for path in changes)
        seen.add(settings.config_fingerprint)
    assert len(seen) == len(every_change(usual)) + 1 > 50


def test_a_profile_that_was_not_followed_shows_in_full():
    """A config of one scale that is recorded under another differs from it in many settings: all are named."""
    small = AUGMENTERS["scots"].configure(spec_of(DATA), "smoke")
    settings = settings_of(small, profile="laptop")
    assert settings.profile == "laptop"
    assert {"trajectories", "stitching.stitches", "stitcher.width"} <= settings.changes.keys()
    usual = AUGMENTERS["scots"].configure(spec_of(DATA), "laptop")
    assert usual.replace_all(settings.changes) == small


def test_settings_that_only_another_dataset_has_are_changes():
    """What is usual depends on the dataset: the threshold of the mazes is a change in the corridor."""
    giant = AUGMENTERS["scots"].configure(SPECS["pointmaze-giant-stitch-v0"], "laptop")
    found = settings_of(giant, profile="laptop").changes
    assert found["stitching.min_displacement"] == 2.0
    assert found["stitching.stitches"] == 80


def test_data_from_elsewhere_is_told_apart_by_its_content():
    tracks = [Trajectories(np.full((4, 2), value), [0, 4]) for value in (1.0, 2.0)]
    first, second = map(AugmentationSettings.of, tracks)
    assert first.label == second.label == "unknown"
    assert first.config_fingerprint != second.config_fingerprint
    step = {"origin": "generated elsewhere", "config": {"steps": 3}, "seed": 5}
    named = AugmentationSettings.of(tracks[0].with_meta(provenance=(step,)))
    assert (named.label, named.config, named.seed) == ("generated elsewhere", {"steps": 3}, 5)
    assert augment_command("maze", named, "aug.npz") is None


# ------------------------------------------------------------------------------------------------------------- commands


def made_by(
    command: str, monkeypatch: pytest.MonkeyPatch, data: Trajectories = DATA
) -> list[tuple[str, ScotsConfig, int]]:
    """The augmenters, configs and seeds that a command would augment this data with."""
    made: list[tuple[str, ScotsConfig, int]] = []

    def augment(self: Scots, data: Trajectories, config: ScotsConfig, *, seed: int, **_: object) -> Trajectories:
        made.append((self.name, config, seed))
        return data

    monkeypatch.setattr(Scots, "augment", augment)
    monkeypatch.setattr("scots.datasets.load", lambda *_, **__: data)
    program, *words = shlex.split(command)
    assert program == "scots"
    assert main(words) == 0
    return made


@pytest.mark.parametrize("label", CHANGED)
def test_the_command_makes_such_data(label: str, monkeypatch: pytest.MonkeyPatch):
    name, config = changed(label)
    command = augment_command(toy.ID, settings_of(config, name, seed=2), "aug file.npz")
    assert command.startswith(f"scots augment {toy.ID} --out 'aug file.npz'")
    assert made_by(command, monkeypatch) == [(name, config, 2)]


@pytest.mark.parametrize("name", ["scots", "scots-paper"])
def test_every_setting_can_be_said_in_a_command(name: str, monkeypatch: pytest.MonkeyPatch):
    """All are changed at once, so that one command says them all: by its own option, or else by --set."""
    config = AUGMENTERS[name].configure(spec_of(DATA), "smoke")
    changes = {path: value for change in every_change(config) for path, value in change.items()}
    config = config.replace_all(changes)
    command = augment_command(toy.ID, settings_of(config, name), "aug.npz")
    assert made_by(command, monkeypatch) == [(name, config, 0)]
    words = shlex.split(command)
    assert words.count("--set") == 1
    said = {word.partition("=")[0] for word in words if "=" in word}
    assert {"embedding.training.steps", "stitching.score_scale"} <= said
    assert not {"trajectories", "stitching.segment", "stitching.novelty_weight"} & said
    assert {"--trajectories", "--segment", "--beta", "--no-refine", "--encoder"} <= set(words)


def test_a_threshold_that_was_switched_off_is_switched_off_by_the_command(monkeypatch: pytest.MonkeyPatch):
    """No option says "none": it means what is usual for the dataset."""
    name = "pointmaze-giant-stitch-v0"
    data = dataclasses.replace(DATA, meta=SPECS[name].collection.meta())
    config = AUGMENTERS["scots"].configure(spec_of(data), "laptop").replace_at("stitching.min_displacement", None)
    command = augment_command(name, settings_of(config, data=data, profile="laptop"), "aug.npz")
    assert made_by(command, monkeypatch, data) == [("scots", config, 0)]


def test_positions_that_a_planner_learns_from_are_asked_for():
    """A planner's data is made of positions without being told; `scots augment` has to be."""
    config = AUGMENTERS["scots"].configure(spec_of(DATA), "smoke").replace_at("columns", "position")
    settings = dataclasses.replace(settings_of(config), changes={})
    assert settings.label == "scots, columns=position"
    assert "'columns=\"position\"'" in augment_command("maze", settings, "aug.npz")


def test_what_is_usual_is_left_out_of_the_command():
    name = "pointmaze-giant-stitch-v0"
    data = dataclasses.replace(DATA, meta=SPECS[name].collection.meta())
    config = AUGMENTERS["scots"].configure(spec_of(data), "laptop").replace_at("trajectories", 400)
    command = augment_command(name, settings_of(config, data=data, profile="laptop"), "aug.npz")
    assert command == f"scots augment {name} --out aug.npz --trajectories 400"


def test_a_setting_without_an_option_is_set_by_its_path():
    config = AUGMENTERS["scots"].configure(spec_of(DATA), "laptop")
    config = config.replace_all({"stitching.novelty_weight": 4, "stitcher.depth": 9, "stitching.memory": "states"})
    command = augment_command(toy.ID, settings_of(config, profile="laptop"), "aug.npz")
    said = "--beta 4 --set stitcher.depth=9 'stitching.memory=\"states\"'"
    assert command == f"scots augment {toy.ID} --out aug.npz {said}"


@pytest.mark.parametrize("words", [["--segment", "2", "--no-refine"], ["--no-refine", "--set", "stitching.segment=2"]])
def test_options_that_are_possible_only_together_are_taken_together(words: list[str], monkeypatch: pytest.MonkeyPatch):
    [(_, config, _)] = made_by(shlex.join(["scots", "augment", toy.ID, "--out", "aug.npz", *words]), monkeypatch)
    assert (config.stitching.segment, config.refine) == (2, False)
    command = augment_command(toy.ID, settings_of(config, profile="laptop"), "aug.npz")
    assert made_by(command, monkeypatch)[0][1] == config


def test_a_setting_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("scots.datasets.load", lambda *_, **__: DATA)
    assert main(["augment", toy.ID, "--out", "never.npz", "--set", "stitching.magic=3"]) == 2
    assert "StitchingConfig has no field 'magic'" in capsys.readouterr().err
    with pytest.raises(BadInput, match="trajectories: expected int, got 'many'"):
        changed("scots")[1].replace_at("trajectories", "many")
