"""What a report says of how data was made is true: it names every changed setting, and its command makes such data."""

import shlex
from dataclasses import replace

import numpy as np
import pytest

import scots
from scots.augmenters import scots as augmenter
from scots.augmenters.scots import ScotsConfig, configure
from scots.cli import main
from scots.data.trajectories import Meta, Trajectories
from scots.envs import toy
from scots.reporting.augmentation import AugmentationSettings, augment_command

DATA = toy.make(episodes=4)

CHANGED = {
    "official": {},
    "paper": {},
    "official, trajectories=400": {"trajectories": 400},
    "official, stitching.candidates=3, stitching.novelty_weight=4.5": {
        "stitching.novelty_weight": 4.5,
        "stitching.candidates": 3,
    },
    "official, encoder=raw, refine=False, stitching.distinct_episodes=True": {
        "refine": False,
        "encoder": "raw",
        "stitching.distinct_episodes": True,
    },
    "paper, stitching.min_displacement=0.5, stitching.stitches=7": {
        "stitching.stitches": 7,
        "stitching.min_displacement": 0.5,
    },
    "official, embedding.training.steps=5": {"embedding.training.steps": 5},
    "official, stitching.score_scale=raw, trajectories=3": {"trajectories": 3, "stitching.score_scale": "raw"},
}
"""Label -> what was changed from the recipe that it begins with."""


def changed(label: str) -> ScotsConfig:
    return configure(DATA, "smoke", label.partition(",")[0]).changed(CHANGED[label])


@pytest.mark.parametrize("label", CHANGED)
def test_the_label_names_the_recipe_and_what_was_changed(label: str):
    settings = AugmentationSettings.of_config(changed(label), DATA, seed=3)
    assert settings.label == label
    assert settings.changes == CHANGED[label]
    assert (settings.profile, settings.seed) == ("smoke", 3)
    assert ScotsConfig.from_dict(settings.config).fingerprint() == settings.config_fingerprint
    assert AugmentationSettings.from_json(settings.to_json()) == settings


def test_the_name_that_a_config_carries_proves_nothing():
    lying = replace(configure(DATA, "smoke", "official").but("stitching.novelty_weight", 9.0), recipe="paper")
    assert AugmentationSettings.of_config(lying, DATA, 0).label == "official, stitching.novelty_weight=9"
    assert AugmentationSettings.of_config(ScotsConfig(), DATA, 0).label == "custom"


def test_data_from_elsewhere_is_told_apart_by_its_content():
    tracks = [Trajectories(np.full((4, 2), value), [0, 4]) for value in (1.0, 2.0)]
    first, second = map(AugmentationSettings.of_unknown, tracks)
    assert first.label == second.label == "unknown"
    assert first.config_fingerprint != second.config_fingerprint
    step = {"origin": "generated elsewhere", "config": {"steps": 3}, "seed": 5}
    named = AugmentationSettings.of_unknown(tracks[0].but_meta(provenance=(step,)))
    assert (named.label, named.config, named.seed) == ("generated elsewhere", {"steps": 3}, 5)
    assert augment_command("maze", named, "aug.npz") is None


def made_by(command: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[ScotsConfig, int]]:
    """The configs and seeds that a command would augment with."""
    made: list[tuple[ScotsConfig, int]] = []

    def augment(data: Trajectories, config: ScotsConfig, *, seed: int, **_: object) -> Trajectories:
        made.append((config, seed))
        return data

    monkeypatch.setattr(augmenter, "augment", augment)
    monkeypatch.setattr(Trajectories, "save", lambda *_: None)
    program, *words = shlex.split(command)
    if program == "scots":
        assert main(words) == 0
    else:
        assert (program, words[0]) == ("python", "-c")
        exec(words[1], {"scots": scots})
    return made


@pytest.mark.parametrize("label", CHANGED)
def test_the_command_makes_such_data(label: str, monkeypatch: pytest.MonkeyPatch):
    config = changed(label)
    command = augment_command(toy.ID, AugmentationSettings.of_config(config, DATA, 2), "aug file.npz")
    assert command.startswith("scots augment") == ("embedding" not in label and "score_scale" not in label)
    assert made_by(command, monkeypatch) == [(config, 2)]


def test_one_option_sets_the_length_of_segments(monkeypatch: pytest.MonkeyPatch):
    config = changed("official, trajectories=400").with_segment(9)
    command = augment_command(toy.ID, AugmentationSettings.of_config(config, DATA, 0), "aug.npz")
    assert command.count("segment") == 1
    assert made_by(command, monkeypatch) == [(config, 0)]


def test_what_is_usual_is_left_out_of_the_command():
    data = DATA.but_meta(**Meta(dataset="pointmaze-giant-stitch-v0", position=(0, 1)).to_dict())
    config = configure(data, "laptop", "official").changed({"trajectories": 400})
    settings = AugmentationSettings.of_config(config, data, 0)
    command = augment_command("pointmaze-giant-stitch-v0", settings, "aug.npz")
    assert command == "scots augment pointmaze-giant-stitch-v0 --out aug.npz --trajectories 400"
