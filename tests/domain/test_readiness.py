"""Readiness: what is seen, what is expected, and the one verdict that follows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.domain.readiness import Expectation, History, ManifestSeen, Observation, growth, judge

GIB = 1024**3


def seen(*observations: Observation) -> History:
    history = History()
    for observation in observations:
        history = history.add(observation)
    return history


def there(at: float = 0.0, **values: object) -> Observation:
    fingerprint = str(sorted((key, value) for key, value in values.items() if key != "quiet"))
    return Observation(at=at, found=True, fingerprint=fingerprint, **values)  # type: ignore[arg-type]


def test_nothing_seen_is_unknown_and_not_ready() -> None:
    verdict = judge(Expectation(), History())
    assert (verdict.readiness, verdict.ready) == (None, False)


def test_a_probe_that_could_not_tell_is_unknown_with_its_reason() -> None:
    verdict = judge(Expectation(), seen(there(), Observation(at=1, problem="no answer within 10s")))
    assert (verdict.readiness, verdict.ready, verdict.reason) == (None, False, "no answer within 10s")


def test_absent_is_zero_and_present_is_one_when_only_existence_is_expected() -> None:
    assert judge(Expectation(), seen(Observation(at=0))).readiness == 0.0
    assert judge(Expectation(), seen(there())) == judge(Expectation(), seen(there(files=3)))
    assert judge(Expectation(), seen(there())).ready


def test_size_says_how_far_it_is_and_when_at_the_present_rate() -> None:
    # 60 GiB at 0 s and 84 GiB at 40 s: 0.6 GiB/s, and 36 GiB of 120 are left: 60 s
    history = seen(there(0, size=60 * GIB), there(40, size=84 * GIB))
    verdict = judge(Expectation(min_size=120 * GIB), history)
    assert verdict.reason == "70 % of 120 GiB"
    assert verdict.readiness == pytest.approx(0.7)
    assert verdict.rate == pytest.approx(0.6 * GIB)
    assert verdict.remaining == pytest.approx(60)


def test_unfinished_files_count_for_progress_but_do_not_make_it_ready() -> None:
    verdict = judge(Expectation(min_size=100), seen(there(size=40, partial=80)))
    assert not verdict.ready
    assert verdict.readiness == 0.99
    assert judge(Expectation(min_size=100), seen(there(size=100))).ready


def test_a_marker_alone_is_all_or_nothing() -> None:
    expectation = Expectation(marker="_SUCCESS")
    waiting = judge(expectation, seen(there(files=5, size=10)))
    assert (waiting.readiness, waiting.reason) == (0.0, "no marker _SUCCESS yet")
    assert judge(expectation, seen(there(marker=True))).ready


def test_a_missing_marker_keeps_a_full_dataset_from_being_ready() -> None:
    verdict = judge(Expectation(min_files=2, marker="_SUCCESS"), seen(there(files=2)))
    assert (verdict.readiness, verdict.ready, verdict.reason) == (0.99, False, "no marker _SUCCESS yet")


def test_files_are_counted() -> None:
    verdict = judge(Expectation(min_files=12), seen(there(files=8)))
    assert (verdict.readiness, verdict.reason) == (pytest.approx(8 / 12), "8 of 12 files")


def test_a_manifest_wants_every_file_with_its_size() -> None:
    expectation = Expectation(manifest="MANIFEST")
    assert judge(expectation, seen(there())).reason == "no manifest MANIFEST yet"
    part = ManifestSeen(files=3, complete=1, bytes_wanted=300, bytes_there=150, first_missing="b.bin")
    verdict = judge(expectation, seen(there(manifest=part)))
    assert (verdict.readiness, verdict.ready) == (0.5, False)
    assert verdict.reason == "1 of 3 manifest files complete, first b.bin"
    too_large = ManifestSeen(files=1, complete=0, bytes_wanted=10, bytes_there=10, first_missing="a")
    assert judge(expectation, seen(there(manifest=too_large))).readiness == 0.99
    whole = ManifestSeen(files=2, complete=2, bytes_wanted=0, bytes_there=0)
    assert judge(expectation, seen(there(manifest=whole))).ready


def test_settled_counts_from_the_last_change_that_was_seen() -> None:
    expectation = Expectation(settled=600)
    history = seen(there(0, size=1), there(100, size=2), there(400, size=2))
    verdict = judge(expectation, history)
    assert (verdict.ready, verdict.remaining) == (False, 300)
    assert verdict.readiness == pytest.approx(300 / 600)
    assert judge(expectation, history.add(there(700, size=2))).ready
    assert not judge(expectation, history.add(there(700, size=3))).ready


def test_settled_takes_the_file_systems_word_where_its_clock_is_ours() -> None:
    assert judge(Expectation(settled=600), seen(there(0, quiet=601.0))).ready
    assert not judge(Expectation(settled=600), seen(there(0, quiet=599.0))).ready


def test_a_failed_probe_is_neither_change_nor_rest() -> None:
    history = seen(there(0, size=1), Observation(at=50, problem="cannot be read: Stale file handle"))
    assert history.unchanged_since == 0
    after = history.add(there(60, size=1))
    assert after.unchanged_since == 0
    assert growth(after) == 0.0


def test_growth_is_unknown_after_one_look_and_never_negative() -> None:
    assert growth(seen(there(0, size=5))) is None
    assert growth(seen(there(0, size=50), there(10, size=0))) == 0.0


def test_an_end_that_cannot_be_told_is_not_guessed() -> None:
    stalled = judge(Expectation(min_size=100), seen(there(0, size=10), there(10, size=10)))
    assert (stalled.rate, stalled.remaining) == (0.0, None)
    with_marker = seen(there(0, size=10), there(10, size=20))
    assert judge(Expectation(min_size=100, marker="done"), with_marker).remaining is None


def test_expectations_are_said_one_by_one() -> None:
    expectation = Expectation(12, 40 * GIB, "_SUCCESS", "MANIFEST", 600)
    assert expectation.phrases() == [
        "at least 12 files",
        "at least 40 GiB",
        "marker _SUCCESS",
        "all of manifest MANIFEST",
        "no change for 10m",
    ]
    assert Expectation().phrases() == ["exists"]


counts = st.integers(0, 2**40)
manifests = st.builds(
    lambda files, part, wanted, share: ManifestSeen(files, min(files, part), wanted, int(wanted * share)),
    st.integers(1, 1000), st.integers(0, 1000), counts, st.floats(0, 1),
)  # fmt: skip
observations = st.builds(
    Observation,
    at=st.floats(0, 1e6),
    found=st.booleans(),
    files=st.integers(0, 10**6),
    size=counts,
    partial=counts,
    marker=st.booleans(),
    manifest=st.none() | manifests,
    fingerprint=st.sampled_from(["a", "b"]),
    quiet=st.none() | st.floats(0, 1e6),
    problem=st.sampled_from(["", "", "", "cannot be read: Input/output error"]),
)
expectations = st.builds(
    Expectation,
    min_files=st.none() | st.integers(1, 10**6),
    min_size=st.none() | counts,
    marker=st.none() | st.just("_SUCCESS"),
    manifest=st.none() | st.just("MANIFEST"),
    settled=st.none() | st.floats(0, 1e6),
)


@given(expectations, st.lists(observations, max_size=12))
def test_any_verdict_is_sound(expectation: Expectation, looks: list[Observation]) -> None:
    history = seen(*sorted(looks, key=lambda look: look.at))
    verdict = judge(expectation, history)
    assert verdict.reason
    assert verdict.ready == (verdict.readiness == 1.0)
    assert verdict.readiness is None or 0.0 <= verdict.readiness <= 1.0
    assert verdict.remaining is None or (verdict.remaining >= 0 and math.isfinite(verdict.remaining))
    assert verdict.rate is None or verdict.rate >= 0
    if verdict.ready:
        last = history.seen[-1]
        assert last.found
        assert not last.problem
        assert last.size >= (expectation.min_size or 0)
        assert last.files >= (expectation.min_files or 0)
        assert last.marker or expectation.marker is None
    if looks and history.seen[-1].problem:
        assert verdict.readiness is None


@given(st.integers(1, 2**40), st.lists(counts, min_size=2, max_size=8))
def test_more_bytes_never_mean_less_readiness(wanted: int, sizes: list[int]) -> None:
    shares = [judge(Expectation(min_size=wanted), seen(there(size=size))).readiness for size in sorted(sizes)]
    assert shares == sorted(share for share in shares if share is not None)
