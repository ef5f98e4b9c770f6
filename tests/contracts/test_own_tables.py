"""Tables as people have them: each is read with at most two flags and comes out as episodes in metres and seconds."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import frames_of, share_drawn

import scots
from scots.cli import main
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.choices import Choices
from scots.data.geography import to_metres
from scots.data.inspection import how_read, inspect
from scots.data.trajectories import Trajectories

START = pd.Timestamp("2024-03-31T23:58:00Z")  # the tracks run over midnight
STEP = 10.0  # seconds
STATES = 30
EPISODES = 3
NORTH, EAST = 1e-4, 2e-4  # degrees a step, about 11 and 15 metres


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


def tracks() -> pd.DataFrame:
    """Straight tracks with a bearing that turns through north and a speed; one starts a second after the other."""
    parts = []
    for episode in range(EPISODES):
        step = np.arange(STATES)
        seconds = step * STEP + episode
        parts.append(
            pd.DataFrame(
                {
                    "episode": episode,
                    "instant": START + pd.to_timedelta(seconds, unit="s"),
                    "lat": 48.1 + 0.01 * episode + NORTH * step,
                    "lon": 11.5 + EAST * step,
                    "bearing": (340 + 2 * step) % 360,
                    "speed": 5 + 0.125 * step,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def shuffled(table: pd.DataFrame) -> pd.DataFrame:
    """The rows in any order."""
    return table.sample(frac=1, random_state=0)


# ---------------------------------------------------------------------------------------------------- files as found


def people(folder: Path) -> Path:
    """GeoLife-like: people in a city, ISO times with a zone, text, an altitude that is nearly always missing."""
    table = tracks()
    out = pd.DataFrame(
        {
            "user": "anna",
            "trajectory_id": table.episode.map("{:03d}".format),
            "time": table.instant.dt.tz_convert("Asia/Shanghai").map(lambda instant: instant.isoformat()),
            "latitude": table.lat,
            "longitude": table.lon,
            "altitude": np.where(table.index % 9 == 0, 492.0, np.nan),
            "mode": "walk",
        }
    )
    return save(out, folder / "people.csv")


def boats(folder: Path) -> Path:
    """AIS-like: MMSI, times without a zone, sorted by time and so interleaved, codes for what is not available."""
    table = tracks().sort_values("instant", kind="stable")
    out = pd.DataFrame(
        {
            "MMSI": 219000000 + table.episode,
            "BaseDateTime": table.instant.dt.strftime("%Y-%m-%dT%H:%M:%S"),
            "LAT": table.lat,
            "LON": table.lon,
            "SOG": table.speed,
            "COG": table.bearing,
            "Heading": np.where(table.index % 4 == 1, 511, table.bearing),
            "VesselName": "NORDLYS",
            "CallSign": "OXYZ",
        }
    )
    lost = out.iloc[[0]].assign(LAT=91.0, LON=181.0, BaseDateTime="2024-04-01T05:00:00")  # no fix
    return save(pd.concat([out, lost, out.iloc[[5]]]), folder / "boats.csv")  # and a row sent twice


def bus(folder: Path) -> Path:
    """GTFS-realtime-like: semicolons, byte-order mark, decimal commas, epoch seconds, empty bearings."""
    table = shuffled(tracks())
    bearing = table.bearing.map("{:.1f}".format).str.replace(".", ",").where(table.index % 5 != 2, "")
    out = pd.DataFrame(
        {
            "trip_id": "trip-" + table.episode.astype(str),
            "vehicle_id": 7000 + table.episode,
            "timestamp": table.instant.astype("int64") // 10 ** (9 if table.instant.dt.unit == "ns" else 6),
            "latitude": table.lat.map("{:.7f}".format).str.replace(".", ","),
            "longitude": table.lon.map("{:.7f}".format).str.replace(".", ","),
            "bearing": bearing,
        }
    )
    return save(out, folder / "bus.csv", sep=";", encoding="utf-8-sig")


def day_first(folder: Path) -> Path:
    """A spreadsheet's export: tabs, day-first dates in one column and the time of day in another, rows shuffled."""
    table = shuffled(tracks())
    out = pd.DataFrame(
        {
            "": np.arange(len(table)),
            "ID": table.episode,
            "Date": table.instant.dt.strftime("%d.%m.%Y"),
            "Time": table.instant.dt.strftime("%H:%M:%S"),
            "Lat": table.lat,
            "Lng": table.lon,
            "Course": table.bearing,
        }
    )
    return save(out, folder / "sheet.tsv", sep="\t")


def folder_of_logs(folder: Path) -> Path:
    """One file per drive, epoch milliseconds, pipes."""
    for episode, table in tracks().groupby("episode"):
        out = table[["lat", "lon", "speed", "bearing"]].assign(
            timestamp_ms=[round(instant.timestamp() * 1000) for instant in table.instant]
        )
        save(out, folder / "logs" / f"drive {episode}.csv", sep="|")
    return folder / "logs"


def lake(folder: Path) -> Path:
    """Parquet with timestamps, identifiers beside missing ones, and a missing place."""
    table = shuffled(tracks())
    out = pd.DataFrame(
        {"track_id": 2**60 + table.episode, "gps_time": table.instant, "lat": table.lat, "lon": table.lon}
    )
    lost = out.iloc[[0]].assign(lat=np.nan)
    (folder / "lake.parquet").parent.mkdir(exist_ok=True)
    pd.concat([out, lost]).to_parquet(folder / "lake.parquet")
    return folder / "lake.parquet"


def watch(folder: Path) -> Path:
    """GPX with a speed in its extensions."""
    lines = ['<?xml version="1.0"?><gpx xmlns="http://www.topografix.com/GPX/1/1" xmlns:e="e"><trk>']
    for _, table in tracks().groupby("episode"):
        for row in table.itertuples():
            extra = f"<extensions><e:speed>{row.speed}</e:speed></extensions>"
            time = row.instant.strftime("%Y-%m-%dT%H:%M:%SZ")
            lines.append(f'<trkpt lat="{row.lat:.7f}" lon="{row.lon:.7f}"><time>{time}</time>{extra}</trkpt>')
        lines.append("</trkseg><trkseg>")
    text = lines[0] + "<trkseg>" + "\n".join(lines[1:]).removesuffix("<trkseg>") + "</trk></gpx>"
    (folder / "watch.gpx").write_text(text)
    return folder / "watch.gpx"


def lines_of_geojson(folder: Path) -> Path:
    """GeoJSON lines with a time for each coordinate."""
    features = [
        {
            "type": "Feature",
            "properties": {"coordTimes": [instant.isoformat() for instant in table.instant]},
            "geometry": {"type": "LineString", "coordinates": table[["lon", "lat"]].to_numpy().tolist()},
        }
        for _, table in tracks().groupby("episode")
    ]
    (folder / "lines.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return folder / "lines.geojson"


def points_of_geojson(folder: Path) -> Path:
    """GeoJSON points, each with its own properties."""
    features = [
        {
            "type": "Feature",
            "properties": {"device_id": row.episode, "recorded_at": row.instant.isoformat(), "bearing": row.bearing},
            "geometry": {"type": "Point", "coordinates": [row.lon, row.lat]},
        }
        for row in shuffled(tracks()).itertuples()
    ]
    (folder / "points.json").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return folder / "points.json"


def save(table: pd.DataFrame, path: Path, **options: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    table.to_csv(path, index=False, **options)
    return path


@dataclass(frozen=True)
class Case:
    write: Callable[[Path], Path]
    state: tuple[str, ...]
    angles: tuple[str, ...] = ()
    flags: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)  # part of what is printed, by role


CASES = {
    "people": Case(
        people,
        ("x", "y"),
        said={
            "episodes": "column trajectory_id and user",
            "time": "ISO 8601, with zone, from 2024-03-31T23:58:00Z",
            "left out": "altitude (89 % missing), mode (text)",
        },
    ),
    "boats": Case(
        boats,
        ("x", "y", "SOG", "COG", "Heading"),
        ("COG", "Heading"),
        said={
            "episodes": "column MMSI",
            "time": "column BaseDateTime (ISO 8601, no zone",
            "dropped": "rows without a position (1), rows with the time of the row before (1)",
            "filled": "missing values",
        },
    ),
    "bus": Case(
        bus,
        ("x", "y", "bearing"),
        ("bearing",),
        said={
            "episodes": "column trip_id and vehicle_id",
            "time": "epoch seconds",
            "filled": "missing values by interpolation (18)",
        },
    ),
    "bus, one flag": Case(bus, ("x", "y"), flags={"ignore": "bearing"}, said={"left out": "bearing (--ignore)"}),
    "day first": Case(
        day_first,
        ("x", "y", "Course"),
        ("Course",),
        said={"time": "column Date and Time (day first", "left out": "a column (no name)"},
    ),
    "folder": Case(
        folder_of_logs,
        ("x", "y", "speed", "bearing"),
        ("bearing",),
        said={"episodes": "one per file", "time": "epoch milliseconds"},
    ),
    "lake": Case(lake, ("x", "y"), said={"time": "timestamps, from", "dropped": "rows without a position (1)"}),
    "watch": Case(watch, ("x", "y", "speed")),
    "lines": Case(lines_of_geojson, ("x", "y")),
    "points": Case(points_of_geojson, ("x", "y", "bearing"), ("bearing",)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_as_it_is_found_becomes_episodes_in_metres_and_seconds(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    assert len(case.flags) <= 2
    data = scots.load(case.write(tmp_path), **case.flags)
    assert data.meta.columns == case.state
    assert [data.meta.columns[column] for column, period in data.meta.angles if period == 360] == list(case.angles)
    assert_tracks(data)
    said = how_read(data.meta)
    for role, words in case.said.items():
        assert words in said[role]


def assert_tracks(data: Trajectories) -> None:
    """The three tracks, wherever they stand among the episodes."""
    assert data.lengths.tolist() == [STATES] * EPISODES
    assert data.times is not None
    origin = data.meta.geo_origin
    expected = tracks()
    east, north = to_metres(expected.lat.to_numpy(), expected.lon.to_numpy(), origin)
    assert data.meta.position == (0, 1)
    for episode in data.episodes():
        number = int(np.argmin([np.abs(north[STATES * n] - episode.observations[0, 1]) for n in range(EPISODES)]))
        rows = slice(STATES * number, STATES * (number + 1))
        np.testing.assert_allclose(episode.positions[:, 0], east[rows], atol=0.02)
        np.testing.assert_allclose(episode.positions[:, 1], north[rows], atol=0.02)
        np.testing.assert_allclose(episode.times, np.arange(STATES) * STEP + number, atol=1e-6)
        for column, period in data.meta.angles:
            turned = episode.observations[:, column] - expected.bearing[rows]
            # Missing ones are interpolated, at the ends held: two degrees a step.
            assert np.abs((turned + period / 2) % period - period / 2).max() <= 4.01


@pytest.mark.parametrize("name", CASES)
def test_inspect_says_what_it_took_for_what_and_draws(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case, picture = CASES[name], tmp_path / "tracks.png"
    flags = [word for flag, value in case.flags.items() for word in (f"--{flag}", value)]
    assert main(["data", "inspect", str(case.write(tmp_path)), "--png", str(picture), *flags]) == 0
    printed = capsys.readouterr().out
    for words in case.said.values():
        assert words in printed
    assert share_drawn(frames_of(picture)[0]) > 0


def test_choices_travel_with_the_data(tmp_path: Path) -> None:
    data = scots.load(bus(tmp_path), ignore="bearing", every=5.0)
    data.save(tmp_path / "bus.npz")
    read, resampled = formats.read(tmp_path / "bus.npz").meta.provenance
    assert (read["origin"], read["flags"], resampled["every"]) == ("read from tables", {"ignore": "bearing"}, 5.0)
    assert scots.load(tmp_path / "bus.npz").equals(data)


def test_degrees_are_written_again_and_read_to_the_same_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, own, out = bus(tmp_path), tmp_path / "bus.npz", tmp_path / "out.csv"
    assert main(["data", "convert", str(source), str(own)]) == 0
    assert main(["data", "convert", str(own), str(out), "--geographic"]) == 0
    written, expected = pd.read_csv(out), tracks()
    assert list(written.columns) == ["episode", "time", "longitude", "latitude", "bearing"]
    order = np.argsort(written.latitude.to_numpy(), kind="stable")
    np.testing.assert_allclose(written.latitude.to_numpy()[order], np.sort(expected.lat), atol=1e-7)
    assert_tracks(scots.load(out))
    assert main(["data", "convert", str(own), str(tmp_path / "out.parquet"), "--geographic"]) == 2
    assert main(["data", "convert", "toy-corridor-stitch-v0", str(out), "--geographic"]) == 2
    assert "has no origin" in capsys.readouterr().err


@pytest.mark.slow
def test_augment_follows_the_choices_and_prints_the_warnings_of_inspect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["--profile", "smoke", "--segment", "9", "--trajectories", "4", "--workers", "1"]
    source, out = bus(tmp_path), tmp_path / "aug.npz"
    assert main(["augment", str(source), "--out", str(out), "--every", "5", "--ignore", "bearing", *own]) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert "episodes: column trip_id and vehicle_id; time: column timestamp (epoch seconds" in printed
    assert "warning: no actions: augmented data will have states only" in printed
    augmented = formats.read(out)
    assert augmented.meta.columns == ("x", "y")
    assert augmented.meta.geo_origin == formats.read(source).meta.geo_origin
    assert [step["origin"] for step in augmented.meta.provenance][:2] == ["read from tables", "resampled"]
    assert main(["data", "convert", str(out), str(tmp_path / "aug.csv"), "--geographic"]) == 0
    assert pd.read_csv(tmp_path / "aug.csv").latitude.between(48.05, 48.2).all()


# ------------------------------------------------------------------------------------------------- choices and rules


def read_text(tmp_path: Path, text: str, **choices: Any) -> Trajectories:
    (tmp_path / "a.csv").write_text(text)
    return formats.read(tmp_path / "a.csv", choices=Choices(**choices))


def test_every_choice_is_followed(tmp_path: Path) -> None:
    text = "car,when,u,v,w,phi,note\n" + "".join(f"{n % 2},{n * 500},{n},{2 * n},7,{n},a\n" for n in range(8))
    chosen = {"episode": "car", "time": "when=ms", "position": "v,u", "state": "phi", "angles": "phi=6.28"}
    data = read_text(tmp_path, text, **chosen)
    assert data.meta.columns == ("u", "v", "phi")
    assert (data.meta.position, data.meta.angles) == ((1, 0), ((2, 2 * np.pi),))
    assert (data.lengths.tolist(), data.times.tolist()[:4]) == ([4, 4], [0, 1, 2, 3])
    one = read_text(tmp_path, text, episode="none", time="none", ignore="note,car", delimiter=",", position="0,1")
    assert (len(one), one.times, one.meta.position) == (1, None, (0, 1))
    assert one.meta.columns == ("when", "u", "v", "w", "phi")
    pairs = read_text(tmp_path, text, episode="car,note")
    assert len(pairs) == 2


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        ({"episode": "trip"}, "--episode: no column 'trip'; choose from t, x, y"),
        ({"time": "when"}, "--time: no column 'when'"),
        ({"time": "t=%Q"}, "--time: '%Q' is no format"),
        ({"position": "x,z"}, "--position: no column 'z'"),
        ({"state": "speed"}, "--state: no column 'speed'"),
        ({"ignore": "speed"}, "--ignore: no column 'speed'"),
        ({"ignore": "x,y"}, "no observation columns"),
        ({"delimiter": "::"}, "--delimiter '::': expected one character"),
        ({"angles": "z=360"}, "--angles: no state column 'z'"),
        ({"angles": "x"}, "--angles: 'x' needs a period, such as x=360"),
        ({"every": 0.0}, "--every 0: expected seconds above zero"),
        ({"every": 1e-12}, "choose a longer one"),
        ({"every": 100.0}, "no episode lasts that long"),
        ({"every": 1.0, "time": "none"}, "--every needs times"),
    ],
)
def test_a_choice_that_cannot_be_followed_is_one_line(choices: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_text(tmp_path, "t,x,y\n0,1,2\n1,2,3\n2,3,4\n", **choices)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_choices_for_tables_are_refused_elsewhere(tmp_path: Path) -> None:
    data = read_text(tmp_path, "t,x,y,v\n0,1,2,3\n1,2,3,4\n")
    for name in ("a.npz", "b.csv"):
        data.save(tmp_path / name)
        with pytest.raises(BadInput, match="--episode is for tables"):
            scots.load(tmp_path / name, episode="x")
        chosen = scots.load(tmp_path / name, position="x,v", ignore="y", angles="v=360")
        assert chosen.meta.columns == ("x", "v")
        assert (chosen.meta.position, chosen.meta.angles) == ((0, 1), ((1, 360.0),))
        assert scots.load(tmp_path / name, state="v").meta.columns == ("x", "y", "v")


def test_columns_without_names_are_chosen_by_number(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", observations=np.arange(20).reshape(4, 5), episode_ends=[4])
    data = scots.load(tmp_path / "a.npz", position="1,2", ignore="0", angles="4=360")
    assert data.observations[0].tolist() == [1, 2, 3, 4]
    assert (data.meta.position, data.meta.angles) == ((0, 1), ((3, 360.0),))
    assert scots.load(tmp_path / "a.npz", position="1,2", state="4").observations[0].tolist() == [1, 2, 4]
    with pytest.raises(BadInput, match="--ignore leaves no state columns"):
        scots.load(tmp_path / "a.npz", ignore="0,1,2,3,4")


def test_only_the_projected_position_has_an_origin(tmp_path: Path) -> None:
    read_text(tmp_path, "lat,lon,v\n48,11,1\n48.1,11.1,2\n").save(tmp_path / "a.npz")
    origin = scots.load(tmp_path / "a.npz", ignore="v").meta.geo_origin
    assert origin == pytest.approx((48.05, 11.05))
    for choices in ({"position": "x,v"}, {"ignore": "x"}, {"position": "v", "state": "v"}):
        assert scots.load(tmp_path / "a.npz", **choices).meta.geo_origin == ()


def test_rows_are_dropped_and_values_filled_as_said(tmp_path: Path) -> None:
    text = (
        "id,t,x,y,heading,speed,temp\n"
        "a,0,0,0,350,1,5\n"
        "b,0,9,9,10,2,5\n"
        "a,2,2,0,,,5\n"
        "a,2,7,7,0,9,5\n"  # a time that is there already
        "a,4,4,0,10,3,\n"
        "a,6,,0,12,3,5\n"  # no position
        "a,,8,0,12,3,5\n"  # no time
        ",8,8,0,12,3,5\n"  # no episode
        "b,1,9,8,20,2,5\n"
    )
    data = read_text(tmp_path, text)
    assert data.meta.columns == ("x", "y", "heading", "speed", "temp")
    assert data.observations.tolist() == [
        [0, 0, 350, 1, 5],
        [2, 0, 0, 2, 5],
        [4, 0, 10, 3, 5],
        [9, 9, 10, 2, 5],
        [9, 8, 20, 2, 5],
    ]
    said = how_read(data.meta)
    assert said["filled"] == "missing values by interpolation (3)"
    reasons = ["without an episode", "without a time", "without a position", "with the time of the row before"]
    assert said["dropped"] == ", ".join(f"rows {reason} (1)" for reason in reasons)


def test_a_column_that_many_episodes_lack_is_left_out_and_few_episodes_are_dropped(tmp_path: Path) -> None:
    rows = [f"{n},{t},{t},{n},{'' if n == 3 else t},{'' if n < 4 else t}" for n in range(12) for t in range(3)]
    data = read_text(tmp_path, "\n".join(["trip,t,x,y,few,many", *rows]))
    assert data.meta.columns == ("x", "y", "few")
    assert len(data) == 11
    assert how_read(data.meta)["left out"] == "many (no value in 4 of 12 episodes)"
    assert how_read(data.meta)["dropped"] == "episodes without any value of a column (1)"


def test_a_row_number_is_no_episode_and_a_trip_of_another_vehicle_is_another_one(tmp_path: Path) -> None:
    assert len(read_text(tmp_path, "id,x,y\n1,1,1\n2,2,2\n3,3,3\n")) == 1
    text = "trip,vehicle_id,x,y\n" + "".join(f"1,{n % 2},{n},{n}\n" for n in range(6))
    assert len(read_text(tmp_path, text)) == 2
    assert len(read_text(tmp_path, text, episode="trip")) == 1


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        (["2024-03-31T01:00:00+01:00", "2024-03-31T03:30:00+02:00"], 5400),  # the hour that summer time skips
        (["2024-02-28 23:59:59.5", "2024-02-29 00:00:00"], 0.5),
        (["20240301T100000Z", "20240301T100005Z"], 5),
        (["2024-03-01 10:00:00 UTC", "2024-03-01 10:00:05 UTC"], 5),
        (["2024/3/1 9:05", "2024/3/1 10:05"], 3600),
        (["31/12/2023 23:59", "01/01/2024 00:01"], 120),
        (["12/31/23 23:59:30", "01/01/24 00:00:30"], 60),
        (["3.4.2024 10:00:00", "4.4.2024 10:00:00"], 86400),
        (["28/02/2024 11:59:58 PM", "29/02/2024 12:00:01 AM"], 3),
        (["23:58:00", "23:59:30.5"], 90.5),
        (["1709287200", "1709287203"], 3),
        (["1709287200000", "1709287200250"], 0.25),
        (["1709287200000000001", "1709287201000000001"], 1),
        (["0.25", "1.75"], 1.5),
    ],
)
def test_times_as_people_write_them(cells: list[str], seconds: float, tmp_path: Path) -> None:
    data = read_text(tmp_path, "time,x,y\n" + "".join(f"{cell},1,2\n" for cell in cells))
    assert data.times is not None
    assert data.times[1] - data.times[0] == pytest.approx(seconds, abs=1e-6)
    assert data.times[0] == (0.25 if cells[0] == "0.25" else 86280 if cells[0] == "23:58:00" else 0)


def test_seconds_may_have_a_decimal_comma(tmp_path: Path) -> None:
    data = read_text(tmp_path, "t;x;y\n0,0;1;2\n0,5;1,5;2\n1;2;2\n")
    assert data.times.tolist() == [0, 0.5, 1]
    assert data.positions[:, 0].tolist() == [1, 1.5, 2]


def test_a_time_format_can_be_given(tmp_path: Path) -> None:
    text = "time,x,y\n03/04/2024 10:00,1,2\n03/05/2024 10:00,2,3\n"
    days = [
        read_text(tmp_path, text, time=f"time={form}").times[1] / 86400 for form in ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M")
    ]
    assert days == [30, 1]


def test_degrees_under_the_names_of_x_and_y_are_told_or_hinted_at(tmp_path: Path) -> None:
    table = tracks().rename(columns={"lon": "X", "lat": "Y", "episode": "trajectory_id"})
    table["t"] = table.instant.dt.strftime("%Y-%m-%d %H:%M:%S+00")
    columns = ["X", "Y", "trajectory_id", "t"]
    path = save(table[columns].assign(fid=table.index, sequence=table.index % STATES, tracker=19), tmp_path / "a.csv")
    hinted = formats.read(path)
    assert hinted.meta.columns == ("X", "Y")
    assert how_read(hinted.meta)["position"] == "X, Y (if these are degrees: --position lon=X,lat=Y)"
    assert "with zone" in how_read(hinted.meta)["time"]
    assert_tracks(formats.read(path, choices=Choices(position="lon=X,lat=Y")))
    for position in ("lon=X", "u=X,lat=Y"):
        with pytest.raises(BadInput, match="degrees need both"):
            formats.read(path, choices=Choices(position=position))


KNOWN_HEADERS = {  # header -> a row, where {0} counts rows; the episode and the time column
    "id,latitude,longitude,track_id,time": ("{0},-10.9,-37.0,1,2014-09-13 07:24:3{0}", "track_id", "time"),
    "mmsi;date_time_utc;lon;lat;sog": ("2;2023-01-01 00:00:0{0};9.5;54.5;1.5", "mmsi", "date_time_utc"),
    "ID,ais_pos_timestamp,longitude,latitude": ("1,20/03/2021 00:2{0},32.3,31.4", "ID", "ais_pos_timestamp"),
    '"id","vehicle_id","trip_id","timestamp","latitude","longitude","route_name"': (
        '2381{0},"4716","1091","2026-01-26 15:57:0{0}",53.4,-2.9,"14"',
        "trip_id and vehicle_id",
        "timestamp",
    ),
    "# Timestamp,MMSI,Latitude,Longitude": ("31/12/2023 00:00:0{0},2,55.5,10.5", "MMSI", "# Timestamp"),
    "track_id,frame_id,timestamp_ms,x,y,psi_rad": ("1,{0},{0}00,5,6,1.5", "track_id", "timestamp_ms"),
    "time,icao24,lat,lon,lastcontact": ("160000000{0},4b1,47.5,8.5,160000000{0}", "icao24", "time"),
    "RecordedAtTime,VehicleRef,VehicleLocation.Latitude,VehicleLocation.Longitude": (
        "2017-06-01 00:03:3{0},NYCT_430,40.6,-74.0",
        "VehicleRef",
        "RecordedAtTime",
    ),
    "event-id,timestamp,location-long,location-lat,individual-local-identifier": (
        "{0},2012-05-01 00:00:0{0}.000,9.5,47.5,stork",
        "individual-local-identifier",
        "timestamp",
    ),
    "episode_index;frame_index;timestamp;x;y": ("0;{0};0.{0};1;2", "episode_index", "timestamp"),
}


@pytest.mark.parametrize("header", KNOWN_HEADERS)
def test_headers_of_well_known_data_are_understood(header: str, tmp_path: Path) -> None:
    row, episode, time = KNOWN_HEADERS[header]
    data = read_text(tmp_path, "\n".join([header, row.format(1), row.format(2)]))
    said = how_read(data.meta)
    assert said["episodes"] == f"column {episode}"
    assert said["time"].startswith(f"column {time} (")
    assert data.lengths.tolist() == [2]
    assert len(data.meta.position) == 2
    assert set(data.meta.columns) <= {"x", "y", "sog", "psi_rad"}


def test_frames_order_rows_where_there_is_no_time(tmp_path: Path) -> None:
    data = read_text(tmp_path, "frame_id,agent_id,x,y\n2,1,2,0\n1,1,1,0\n3,1,3,0\n1,2,5,5\n")
    assert data.positions[:, 0].tolist() == [1, 2, 3, 5]
    assert "frame numbers" in how_read(data.meta)["time"]


def test_data_wide_as_a_country_gives_a_warning(tmp_path: Path) -> None:
    near, far = (f"lat,lon\n48,11\n{48 + span},{11 + span}\n48.1,11.1\n" for span in (0.5, 3.0))
    assert not any("km" in warning for warning in inspect(read_text(tmp_path, near)).warnings)
    (warning,) = [warning for warning in inspect(read_text(tmp_path, far)).warnings if "km" in warning]
    assert "322 km" in warning


@pytest.mark.parametrize("position", ["lat", "lon,lat,alt", "lat,alt"])
def test_degrees_are_a_position_of_two(position: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--position: degrees need both"):
        read_text(tmp_path, "lat,lon,alt\n48,11,1\n48.1,11.1,2\n", position=position)


def test_numbers_under_the_name_of_degrees_are_no_degrees(tmp_path: Path) -> None:
    data = read_text(tmp_path, "lat,lon\n5334000,691000\n5334001,691001\n")
    assert (data.meta.columns, data.meta.position, data.meta.geo_origin) == (("lat", "lon"), (0, 1), ())


def test_gpx_with_a_doctype_is_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE gpx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    for encoding in ("utf-8", "utf-16"):
        content = f'<?xml version="1.0" encoding="{encoding}"?>{bomb}<gpx><name>&b;</name></gpx>'
        (tmp_path / "a.gpx").write_bytes(content.encode(encoding))
        with pytest.raises(BadInput, match="the file has a DOCTYPE"):
            formats.read(tmp_path / "a.gpx")


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.gpx", "<gpx></gpx>", "no track points"),
        ("a.gpx", "<gpx><trk>", "cannot be read"),
        ("a.gpx", '<gpx><trk><trkseg><trkpt lat="a" lon="1"/></trkseg></trk></gpx>', "column 'latitude' is text"),
        ("a.geojson", "[1]", "no GeoJSON"),
        ("a.geojson", '{"type": "FeatureCollection", "features": []}', "no LineString"),
        ("a.geojson", '{"type": "LineString", "coordinates": [[1], [2, 3]]}', "feature 0 has a coordinate [1]"),
        ("a.geojson", "[" * 100_000, "cannot be read"),
        (
            "a.geojson",
            '{"type": "Feature", "properties": {"times": [1]}, '
            '"geometry": {"type": "LineString", "coordinates": [[1, 2], [2, 3]]}}',
            "feature 0 has not one time per coordinate",
        ),
    ],
)
def test_damaged_gpx_and_geojson_give_one_line(name: str, content: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadInput) as caught:
        formats.read(tmp_path / name)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_formats_that_are_only_read_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="gpx is only read"):
        read_text(tmp_path, "x,y\n1,2\n").save(tmp_path / "a.gpx", "gpx")


# -------------------------------------------------------------------------------------------------------- properties

CELLS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 4))


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=2, max_size=12), quoted=st.booleans())
def test_one_table_in_any_writing_gives_equal_data(rows: list[tuple[float, float, float]], quoted: bool) -> None:
    table = [(f"2024-05-17T10:00:{n:02d}Z", *row) for n, row in enumerate(rows)]
    read = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (delimiter, decimal, mark, newline) in enumerate(
            [(",", ".", "", "\n"), (";", ",", "\ufeff", "\r\n"), ("\t", ".", "", "\r\n"), ("|", ",", "", "\n")]
        ):
            lines = ["time", *"xyz"], *table
            cells = [[str(cell).replace(".", decimal) for cell in line] for line in lines]
            quote = '"' if quoted else ""
            text = newline.join(delimiter.join(f"{quote}{cell}{quote}" for cell in line) for line in cells)
            path = Path(folder) / f"{number}.csv"
            path.write_bytes((mark + text + newline).encode())
            read.append(formats.read(path))
    assert all(data.equals(read[0]) for data in read)
    np.testing.assert_array_equal(read[0].observations, np.array(rows, dtype=np.float32))
    assert read[0].times.tolist() == list(range(len(rows)))


@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    table = tracks()
    with tempfile.TemporaryDirectory() as folder:
        order = np.random.default_rng(seed).permutation(len(table))
        data = formats.read(save(table.iloc[order].rename(columns={"instant": "time"}), Path(folder) / "a.csv"))
    assert_tracks(data)
