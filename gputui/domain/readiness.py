"""Readiness of a dataset: what is expected, what was seen, and what follows. Pure; `now` is monotonic seconds."""

from dataclasses import dataclass, field

from gputui.format import duration, size

HALF_READY = 0.99
"""The most that is shown of a dataset that is not ready: 1 means ready and nothing else does."""
RATE_WINDOW = 60.0
"""Seconds of observations from which growth is reckoned."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """When a dataset counts as complete. All that is set must hold; with nothing set it must merely exist."""

    min_files: int | None = None
    min_size: int | None = None
    """Bytes."""
    marker: str | None = None
    """A file whose appearance says that the rest is there, relative to the location."""
    manifest: str | None = None
    """A file with one `SIZE  NAME` per line, relative to the location; each must be there with just that size."""
    settled: float | None = None
    """Seconds without any change."""

    def phrases(self) -> list[str]:
        """Each expectation as one phrase."""
        said = []
        if self.min_files is not None:
            said.append(f"at least {self.min_files} file{'' if self.min_files == 1 else 's'}")
        if self.min_size is not None:
            said.append(f"at least {size(self.min_size)}")
        if self.marker is not None:
            said.append(f"marker {self.marker}")
        if self.manifest is not None:
            said.append(f"all of manifest {self.manifest}")
        if self.settled is not None:
            said.append(f"no change for {duration(self.settled)}")
        return said or ["exists"]


@dataclass(frozen=True, slots=True)
class ManifestSeen:
    """How far the files of a manifest are there."""

    files: int
    """Named in the manifest."""
    complete: int
    """There with the size named."""
    bytes_wanted: int
    bytes_there: int
    """Of the files named, each counted up to the size named."""
    first_missing: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one probe saw. `problem` set: it could not tell, and the rest means nothing."""

    at: float
    found: bool = False
    files: int = 0
    """Complete ones: names that download tools give to unfinished files are left out."""
    size: int = 0
    """Bytes of those."""
    partial: int = 0
    """Bytes of unfinished files."""
    marker: bool = False
    manifest: ManifestSeen | None = None
    """None: not expected, or not there yet."""
    fingerprint: str = ""
    """Equal as long as nothing changed."""
    quiet: float | None = None
    """Seconds since the last change by the file system's own times; None where its clock need not be ours."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a dataset now."""

    readiness: float | None
    """0 to 1; 1 exactly when ready; None: unknown."""
    ready: bool
    reason: str
    rate: float | None = None
    """Bytes per second; None: not known yet."""
    remaining: float | None = None
    """Seconds until it is complete at that rate; None where that can't be told."""


@dataclass(frozen=True, slots=True)
class History:
    """The last observations, oldest first, and since when nothing changed."""

    seen: tuple[Observation, ...] = ()
    unchanged_since: float | None = None

    def add(self, observation: Observation) -> "History":
        """With one more. A probe that could not tell neither counts as a change nor as rest."""
        if observation.problem:
            return History((*self.seen, observation)[-64:], self.unchanged_since)
        before = next((seen for seen in reversed(self.seen) if not seen.problem), None)
        same = before is not None and before.fingerprint == observation.fingerprint
        since = self.unchanged_since if same and self.unchanged_since is not None else observation.at
        recent = tuple(seen for seen in self.seen if observation.at - seen.at <= RATE_WINDOW)
        return History((*recent, observation)[-64:], since)


@dataclass(slots=True)
class _Findings:
    """What is still wanted, the first of it being what is said."""

    missing: list[str] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    waits: list[float | None] = field(default_factory=list)

    def part(self, have: float, want: float, phrase: str, wait: float | None) -> None:
        self.shares.append(min(1.0, have / want) if want > 0 else 1.0)
        if have < want:
            self.missing.append(phrase)
            self.waits.append(wait)


def judge(expectation: Expectation, history: History) -> Verdict:
    """What the newest observation says, with growth from those before it."""
    if not history.seen:
        return Verdict(None, False, "not checked yet")
    last = history.seen[-1]
    if last.problem:
        return Verdict(None, False, last.problem)
    rate = growth(history)
    if not last.found:
        return Verdict(0.0, False, "not there yet", rate)

    findings = _Findings()
    if expectation.manifest is not None:
        _manifest(findings, expectation.manifest, last.manifest, rate)
    if expectation.min_size is not None:
        _min_size(findings, expectation.min_size, last, rate)
    if expectation.min_files is not None:
        findings.part(last.files, expectation.min_files, f"{last.files} of {expectation.min_files} files", None)
    if expectation.marker is not None:
        if not findings.shares:
            findings.shares.append(float(last.marker))
        if not last.marker:
            findings.missing.append(f"no marker {expectation.marker} yet")
            findings.waits.append(None)
    if expectation.settled is not None:
        _settled(findings, expectation.settled, last, history)

    share = min(findings.shares, default=1.0)
    if not findings.missing:
        return Verdict(1.0, True, "complete", rate, 0.0)
    waits = [wait for wait in findings.waits if wait is not None]
    remaining = max(waits) if len(waits) == len(findings.waits) else None
    return Verdict(min(share, HALF_READY), False, findings.missing[0], rate, remaining)


def growth(history: History) -> float | None:
    """Bytes per second over the last minute; 0 when nothing comes (or it shrinks); None before a second look."""
    seen = [one for one in history.seen if not one.problem]
    if len(seen) < 2 or seen[-1].at <= seen[0].at:
        return None
    first, last = seen[0], seen[-1]
    return max(0.0, (last.size + last.partial - first.size - first.partial) / (last.at - first.at))


def _wait(missing: float, rate: float | None) -> float | None:
    return missing / rate if rate else None


def _manifest(findings: _Findings, name: str, seen: ManifestSeen | None, rate: float | None) -> None:
    if seen is None:
        findings.part(0, 1, f"no manifest {name} yet", None)
        return
    done = seen.complete == seen.files
    share = seen.bytes_there / seen.bytes_wanted if seen.bytes_wanted else seen.complete / max(1, seen.files)
    findings.shares.append(1.0 if done else share)
    if not done:
        first = f", first {seen.first_missing}" if seen.first_missing else ""
        findings.missing.append(f"{seen.complete} of {seen.files} manifest files complete{first}")
        short = seen.bytes_wanted - seen.bytes_there
        findings.waits.append(_wait(short, rate) if short > 0 else None)


def _min_size(findings: _Findings, wanted: int, seen: Observation, rate: float | None) -> None:
    there = seen.size + seen.partial
    findings.shares.append(min(1.0, there / wanted) if wanted else 1.0)
    if seen.size < wanted:
        percent = min(99, int(100 * there / wanted))
        findings.missing.append(f"{percent} % of {size(wanted)}")
        findings.waits.append(_wait(max(0, wanted - there), rate))


def _settled(findings: _Findings, wanted: float, seen: Observation, history: History) -> None:
    since = history.unchanged_since
    watched = seen.at - since if since is not None else 0.0
    quiet = max(watched, seen.quiet or 0.0)
    if not findings.shares:
        findings.shares.append(min(1.0, quiet / wanted) if wanted else 1.0)
    if quiet < wanted:
        findings.missing.append(f"changed {duration(quiet)} ago, to be quiet for {duration(wanted)}")
        findings.waits.append(wanted - quiet)
