"""What the columns of a table mean, by name.

    episode  time  x  y  v  action_0  reward        in our own tables: a column without a role is an observation

Tables from elsewhere are read by more names. These are compared without case, spaces and punctuation: `BaseDateTime`,
`base_date_time` and `base date-time` are one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from scots.core.errors import BadInput
from scots.data.choices import Choices, words
from scots.data.inspection import POSITION_NAMES

SINGLE = {"times": "time", "rewards": "reward", "source": "source_row", "generated": "generated"}
"""Fields of `Trajectories` that are one column -> the name of that column."""

PREFIXES = {"actions": "action", "qpos": "qpos_", "qvel": "qvel_", "scores": "stitch_score_"}
"""Fields of several columns -> how the names of these begin."""

_OWN_EPISODE = {"episode", "episode_id", "traj", "trajectory", "traj_id", "run"}
_OWN_TIME = {"time", "t", "timestamp", "stamp"}
_EPISODE = re.compile("(episode|traj|trajectory|track|trip|run|ride|journey)(id|index|number|no)?|(flight|voyage)id")
_MOVER = re.compile(
    "((vehicle|object|agent|actor|user|person|pedestrian|driver|device|bus|boat|ship|vessel|taxi|car|bike|animal)(id|ref))"
    "|user|tracker|id|uid|uuid|mmsi|icao24|imei|(individual|tag)localidentifier"
)
_TIME = re.compile("((gps|utc|unix|epoch|fix|event|position|location|local|base)?(time|datetime)|.*timestamp)(utc)?")
_SHORT_TIME = {"t", "ts", "stamp", "utc", "epoch", "seconds", "recordedat", "recordedattime"}
_FRAME = {"frame", "frameid", "frameindex", "framenumber", "timestep"}
_END = re.compile("(next)?(done|terminal|terminated|truncated|timeout|success)")
_COUNTER = {"index", "row", "rowid", "rownumber", "taskindex", "fid", "gid", "oid", "sequence", "seq"}
_UNIT = re.compile(r"^(.*?)[\s_\-.\[(]+(s|secs?|seconds|ms|us|ns)[\])]?$", re.IGNORECASE)
_SECONDS = {"s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PREFIX = "(vehicle)?(gps|pos|position|location)?"
_LATITUDE = re.compile(f"{_PREFIX}lat(itude)?(deg|degrees)?")
_LONGITUDE = re.compile(f"{_PREFIX}(lon|lng|long|longitude)(deg|degrees)?")


def role_of(column: str) -> str:
    """Role of a column of our own tables: a field of `Trajectories`, or "episode"."""
    name = column.strip().lower()
    if name == "next.reward":  # LeRobot's name for the reward of a step
        return "rewards"
    if name in _OWN_EPISODE:
        return "episode"
    if name in _OWN_TIME:
        return "times"
    for field, single in SINGLE.items():
        if name == single:
            return field
    return next((field for field, prefix in PREFIXES.items() if name.startswith(prefix)), "observations")


# --------------------------------------------------------------------------------------------- tables from elsewhere


def chosen_role(name: str, actions: Sequence[str]) -> str:
    """Role of a column where the action columns were chosen: a name that only looks like one is a state."""
    if name in actions:
        return "actions"
    role = role_of(name)
    return "observations" if role == "actions" else role


def plain_name(name: str) -> str:
    """A column name in lower case, letters and digits only."""
    return re.sub(r"[\W_]", "", name.lower())


def unit_of(name: str) -> float | None:
    """Seconds in the unit that the name of a time column ends with: time_ms -> 0.001."""
    match = _UNIT.match(name.strip())
    return _SECONDS[match[2].lower()] if match and _names_time(plain_name(match[1])) else None


def is_time(name: str) -> bool:
    """Whether a name says that the column is the time."""
    return _names_time(plain_name(name)) or unit_of(name) is not None


def _names_time(plain: str) -> bool:
    return plain in _SHORT_TIME or bool(_TIME.fullmatch(plain))


def is_frame(name: str) -> bool:
    """Whether a name says that the column counts frames: a time in steps, not in seconds."""
    return plain_name(name) in _FRAME


def is_end(name: str) -> bool:
    """Whether a name says that the column marks the end of an episode, so that it is no state."""
    return bool(_END.fullmatch(plain_name(name)))


def is_identifier(name: str) -> bool:
    """Whether a name says that the column identifies or counts something, so that it is no state."""
    plain = plain_name(name)
    named = plain in _COUNTER or _EPISODE.fullmatch(plain) or _MOVER.fullmatch(plain)
    return bool(named or re.search(r"([_\-. ](id|name|code)|[a-z](I[dD]|Name|Code))$", name.strip()))


def is_mover(name: str) -> bool:
    """Whether a name says that the column tells who or what moves."""
    return bool(_MOVER.fullmatch(plain_name(name)))


def is_latitude(name: str) -> bool:
    """Whether a name says that the column is a latitude."""
    return bool(_LATITUDE.fullmatch(plain_name(name)))


def is_longitude(name: str) -> bool:
    """Whether a name says that the column is a longitude."""
    return bool(_LONGITUDE.fullmatch(plain_name(name)))


def identifiers(names: Sequence[str], choices: Choices) -> list[str]:
    """Columns whose cells are read as text, so that no digit of an identifier is lost."""
    return [name for name in names if is_identifier(name) or name.strip() in words(choices.episode)]


def existing(flag: str, chosen: Sequence[str], names: Sequence[str]) -> list[str]:
    """The chosen columns, each of which must be there."""
    for name in chosen:
        if name not in names:
            raise BadInput(f"{flag}: no column {name!r}; choose from {', '.join(names)}")
        if chosen.count(name) > 1:
            raise BadInput(f"{flag}: names column {name!r} twice; name it once")
    return list(chosen)


def only(found: Sequence[str], role: str, flag: str) -> list[str]:
    """At most one column for a role, or a question that shows the flag."""
    if len(found) > 1:
        raise BadInput(f"columns {found[0]!r} and {found[1]!r} both mean {role}; choose one with {flag} {found[0]}")
    return list(found)


def episode_column(names: Sequence[str], choices: Choices) -> list[str]:
    """The columns that name the episode, as chosen or, at most one, by name."""
    if choices.episode is not None:
        return [] if choices.episode.lower() == "none" else existing("--episode", words(choices.episode), names)
    return only([name for name in names if _EPISODE.fullmatch(plain_name(name))], "episode", "--episode")


def position_pair(names: Sequence[str], choices: Choices) -> list[str]:
    """The position columns, as chosen or by name: x and y, or latitude and longitude."""
    if choices.position is not None:
        chosen = [word.rpartition("=")[2] for word in words(choices.position)]
        by_number = all(word.isdigit() and word not in names for word in chosen)  # of the state columns, not yet known
        return [] if by_number else existing("--position", chosen, names)
    lower = [name.lower() for name in names]
    pairs = [[names[lower.index(name)] for name in pair] for pair in POSITION_NAMES if set(pair) <= set(lower)][:1]
    latitude = only([name for name in names if is_latitude(name)], "latitude", "--position")
    longitude = only([name for name in names if is_longitude(name)], "longitude", "--position")
    if latitude and longitude:
        pairs.append(latitude + longitude)
    if len(pairs) > 1:
        first, second = (",".join(pair) for pair in pairs)
        raise BadInput(f"both {first} and {second} may be the position; choose with --position {first}")
    return pairs[0] if pairs else []


def degrees(position: Sequence[str], choices: Choices) -> list[str]:
    """Which of the position columns are the latitude and the longitude, in this order; none if they are no degrees."""
    told = {word.rpartition("=")[2]: word.rpartition("=")[0] for word in words(choices.position) if "=" in word}
    called = {name: told.get(name, name) for name in position}
    latitude = [name for name in position if is_latitude(called[name])]
    longitude = [name for name in position if is_longitude(called[name])]
    if (told or latitude or longitude) and (len(position), len(latitude), len(longitude)) != (2, 1, 1):
        raise BadInput("--position: degrees need both, latitude and longitude, and nothing else: lat=Y,lon=X")
    return latitude + longitude
