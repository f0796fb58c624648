"""Between a dataset as people ask for it, a look as the prober takes it, and what readiness makes of it. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gputui.domain.errors import InputError
from gputui.domain.readiness import Expectation, ManifestSeen, Observation, Verdict
from gputui.domain.units import parse_duration, parse_size

LONGEST_NAME = 100
LONGEST_WAIT = timedelta(days=365)
"""An end further away than this says nothing."""


def asked(request: Mapping[str, Any]) -> tuple[str, str, Expectation]:
    """Name, location and expectation of a `DatasetRequest`. Raises `InputError`."""
    name, location = request["name"], request["location"]
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or "/" in name or "," in name:
        raise InputError("name", name, f"write up to {LONGEST_NAME} printable characters without '/' and ','")
    if "://" in location:
        raise InputError("location", location, "write a path or a pattern; addresses are not supported yet")
    if not location.startswith("/") or "\0" in location:
        raise InputError("location", location, "write an absolute path, with wildcards if you like")
    return (
        name,
        location,
        Expectation(
            min_files=_count(request.get("min_files")),
            min_size=_given(request.get("min_size"), parse_size, "min_size"),
            marker=_file(request.get("marker"), "marker"),
            manifest=_file(request.get("manifest"), "manifest"),
            settled=_given(request.get("settled"), parse_duration, "settled"),
        ),
    )


def _given(value: Any, parse: Any, field: str) -> Any:
    return None if value is None else parse(value, field)


def _count(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**63:
        raise InputError("min_files", value, "write a whole number from 1")
    return value


def _file(value: str | None, field: str) -> str | None:
    if value is not None and (not value or "\0" in value):
        raise InputError(field, value, "write a file's name, relative to the location or absolute")
    return value


def request(location: str, expectation: Expectation, *, quick: bool) -> dict[str, object]:
    """What the prober is asked."""
    return {
        "location": location,
        "marker": expectation.marker,
        "manifest": expectation.manifest,
        "quick": quick,
    }


def observation(seen: Mapping[str, Any], at: float) -> Observation:
    """What the prober answered."""
    if seen.get("problem"):
        return Observation(at, problem=str(seen["problem"]))
    manifest = seen.get("manifest")
    return Observation(
        at=at,
        found=seen["found"],
        files=seen["files"],
        size=seen["size"],
        partial=seen["partial"],
        marker=seen["marker"],
        manifest=ManifestSeen(**manifest) if manifest else None,
        fingerprint=seen["fingerprint"],
        quiet=seen["quiet"],
    )


def glance(seen: Mapping[str, Any]) -> tuple[object, ...]:
    """What a quick look tells too: equal means that nothing need be looked at as a whole yet."""
    return tuple(seen.get(key) for key in ("problem", "found", "marker", "top"))


def expected(now: datetime, verdict: Verdict) -> datetime | None:
    """When it will be complete at the present rate, to the second."""
    if verdict.ready or verdict.remaining is None or verdict.remaining > LONGEST_WAIT.total_seconds():
        return None
    return (now + timedelta(seconds=verdict.remaining)).replace(microsecond=0)


def word(verdict: Verdict) -> str:
    """What the audit log calls it."""
    if verdict.readiness is None:
        return "unknown"
    return "ready" if verdict.ready else "unready"


def stuck(count: int) -> str:
    """What needs a person, or nothing."""
    if not count:
        return ""
    looks = "1 look at a dataset hangs" if count == 1 else f"{count} looks at datasets hang"
    return f"{looks} in the kernel: is a mount dead? 'gputui dataset list' names what is unknown."
