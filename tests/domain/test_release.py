"""A GPU is free on evidence."""

from gputui.domain.release import LIMIT, TOLERANCE, Grant, Release, Sample, Verdict, judge

GIB = 1 << 30
IDLE = GIB // 2


def verdict(grant: Grant, samples: list[Sample], now: float = 1.0) -> Release:
    return judge(grant, samples, ended_at=0.0, now=now)


def series(
    *used: int | None, processes: int | None = 0, others: int | None = None, every: float = 0.02
) -> list[Sample]:
    return [Sample(at * every, processes, one, others) for at, one in enumerate(used)]


def test_three_samples_at_the_grants_level_free_it() -> None:
    assert verdict(Grant(IDLE), series(IDLE, IDLE, IDLE)) == Release(Verdict.FREE)
    assert verdict(Grant(IDLE), series(IDLE + TOLERANCE, IDLE, 0)) == Release(Verdict.FREE)


def test_two_are_not_enough_nor_three_too_close() -> None:
    assert verdict(Grant(IDLE), series(IDLE, IDLE)).reason == "2 good samples of 3"
    assert verdict(Grant(IDLE), series(IDLE, IDLE, IDLE, IDLE, every=0.005)).verdict is Verdict.WAIT
    assert verdict(Grant(IDLE), []).reason == "no sample since the end"


def test_they_must_be_the_last_ones() -> None:
    assert verdict(Grant(IDLE), series(IDLE, IDLE, IDLE, IDLE + GIB)).verdict is Verdict.WAIT
    assert verdict(Grant(IDLE), series(IDLE + GIB, IDLE, IDLE)).verdict is Verdict.WAIT
    assert verdict(Grant(IDLE), series(80 * GIB, IDLE, IDLE, IDLE)).verdict is Verdict.FREE


def test_memory_still_held_keeps_it() -> None:
    found = verdict(Grant(IDLE), series(*[40 * GIB] * 3))
    assert found == Release(Verdict.WAIT, "40 GiB still used, at most 0.8 GiB expected")


def test_a_process_left_keeps_it_even_without_memory() -> None:
    found = verdict(Grant(IDLE), series(IDLE, IDLE, IDLE, processes=2))
    assert found == Release(Verdict.WAIT, "2 processes of the run left")


def test_unknown_is_neither_free_nor_zero() -> None:
    assert verdict(Grant(IDLE), series(None, None, None)).reason == "used memory cannot be read"
    assert verdict(Grant(IDLE), series(0, 0, 0, processes=None)).reason == "the run's processes cannot be read"
    assert verdict(Grant(IDLE), series(IDLE, None, IDLE)).verdict is Verdict.WAIT


def test_what_other_holders_took_or_gave_back_is_counted() -> None:
    grew = series(*[IDLE + 10 * GIB] * 3, others=10 * GIB)
    assert verdict(Grant(IDLE), grew).verdict is Verdict.FREE
    left = series(*[IDLE + 10 * GIB] * 3, others=0)
    assert verdict(Grant(IDLE + 10 * GIB, others=10 * GIB), left).verdict is Verdict.WAIT
    assert verdict(Grant(IDLE + 10 * GIB, others=10 * GIB), series(IDLE, IDLE, IDLE, others=0)).verdict is Verdict.FREE


def test_a_grant_of_unknown_level_allows_what_a_driver_holds() -> None:
    assert verdict(Grant(None), series(IDLE, IDLE, IDLE)).verdict is Verdict.FREE
    assert verdict(Grant(None), series(*[3 * GIB] * 3)).verdict is Verdict.WAIT


def test_where_memory_is_not_supported_processes_are_the_evidence() -> None:
    samples = [Sample(at * 0.02, 0, None, memory_supported=False) for at in range(3)]
    assert verdict(Grant(None), samples).verdict is Verdict.FREE


def test_past_the_limit_it_is_quarantined_with_the_reason() -> None:
    samples = series(*[40 * GIB] * 3)
    assert verdict(Grant(IDLE), samples, now=LIMIT - 0.1).verdict is Verdict.WAIT
    found = verdict(Grant(IDLE), samples, now=LIMIT)
    assert found.verdict is Verdict.QUARANTINE
    assert found.reason == "not free 30 s after the run ended: 40 GiB still used, at most 0.8 GiB expected"
    assert verdict(Grant(IDLE), series(IDLE, IDLE, IDLE), now=LIMIT + 9).verdict is Verdict.FREE, "late, but proven"
