"""Jobs, runs and datasets in a real file."""

import os
import sqlite3
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError, StatementError

from gputui.domain.errors import Refused
from gputui.domain.job import Demand
from gputui.domain.lifecycle import Hold, JobState
from gputui.store import datasets, ended, environments, jobs, runs
from gputui.store.db import Store
from gputui.store.tables import Dataset, Environment, Job, Run, RunState
from tests.store.conftest import AT, HOST, Submit, spec

SOAK = os.environ.get("GPUTUI_SOAK") == "1"


def test_a_job_comes_back_as_it_was_asked_for(store: Store, submit: Submit) -> None:
    asked = spec(
        argv=(b"a b", b"", b'"&\n', b"\xff\xfe", "\U0001f600".encode()),
        cwd=b"/data/\xe9t\xe9",
        env={b"NAME": b"v=1\n", b"RAW": b"\xff"},
        name="[b]\U0001f600",
        project="vision",
        priority_class="core",
        priority=-3,
        demand=Demand(4, frozenset({"h100-80g", "a100-80g"}), 40 << 30, share=True),
        duration=3600.0,
        datasets=("laion", "c4"),
        retries=2,
        grace=30.0,
        checkpoint="ckpt/\udcff*.pt",
        time_limit=7200.0,
    )
    (job_id,) = submit([asked])
    with store.read() as session:
        job = jobs.get(session, job_id)
        env = jobs.environment(session, job.env_hash)
        names = jobs.datasets_of(session, [job_id])
    assert job.argv == asked.argv
    assert (job.cwd, env) == (asked.cwd, asked.env)
    assert (job.name, job.project, job.priority_class, job.priority) == ("[b]\U0001f600", "vision", "core", -3)
    assert (job.gpus, job.gpu_types, job.gpu_memory, job.share) == (4, ("a100-80g", "h100-80g"), 42949672960, True)
    assert (job.duration, job.retries, job.grace, job.time_limit) == (3600.0, 2, 30.0, 7200.0)
    assert job.checkpoint == asked.checkpoint
    assert names == {job_id: ("laion", "c4")}
    assert (job.state, job.version, job.submitted_at) == (JobState.QUEUED, 1, AT)


def test_2000_arguments_arrive(store: Store, submit: Submit) -> None:
    argv = tuple(b"%d\xff" % n for n in range(2000))
    (job_id,) = submit([spec(argv=argv)])
    with store.read() as session:
        assert jobs.get(session, job_id).argv == argv


def test_text_that_is_not_utf8_is_kept_as_an_escape(store: Store, submit: Submit) -> None:
    (job_id,) = submit([spec(name="run-\udcff")])
    with store.read() as session:
        assert jobs.get(session, job_id).name == r"run-\udcff"


def test_ids_follow_the_order_given_and_are_never_used_again(store: Store, submit: Submit) -> None:
    assert submit([spec(name=str(n)) for n in range(3)]) == [1, 2, 3]
    with store.write() as session:
        session.delete(jobs.get(session, 3))
    assert submit([spec()], first_seq=4) == [4]
    assert submit([], first_seq=5) == []
    with store.read() as session:
        assert [jobs.get(session, n).submitted_seq for n in (1, 2, 4)] == [1, 2, 4]
        assert jobs.last_seq(session) == 4


def test_a_batch_is_all_or_nothing(store: Store, submit: Submit) -> None:
    with pytest.raises(StatementError):
        submit([spec()] * 700 + [spec(duration="an hour")])
    with store.read() as session:
        assert jobs.counts(session) == {}
    assert submit([spec()]) == [1]


def test_pueue_573_an_environment_is_stored_once(store: Store, submit: Submit) -> None:
    submit([spec(env={b"A": b"1", b"B": b"2"}), spec(env={b"B": b"2", b"A": b"1"}), spec(env={})])
    submit([spec(env={b"A": b"1", b"B": b"2"})], first_seq=4)
    with store.read() as session:
        first, second, other, fourth = (jobs.get(session, n).env_hash for n in (1, 2, 3, 4))
        assert first == second == fourth != other
        assert jobs.environment(session, other) == {}
        assert session.get(Environment, first).blob == b"A=1\0B=2\0"


def test_pueue_573_a_submit_writes_as_much_into_a_long_queue_as_into_an_empty_one(
    store: Store, submit: Submit, path: Path
) -> None:
    def written() -> int:
        other = sqlite3.connect(path)
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        other.close()
        submit([spec()], first_seq=jobs_so_far)
        return path.with_name(path.name + "-wal").stat().st_size

    jobs_so_far = 1
    submit([spec()])
    empty = written()
    jobs_so_far = 2
    submit([spec(name=f"{n}") for n in range(2000)], first_seq=2)
    jobs_so_far = 2002
    # a tree of 2,000 rows is one level deeper, in the table and in its index
    assert written() <= empty + 4 * 4200


def test_the_environment_hash_is_that_of_its_bytes() -> None:
    env = {b"B": b"x=y", b"A": b"\xff\n"}
    assert environments.pack(env) == b"A=\xff\n\0B=x=y\0"
    assert environments.unpack(environments.pack(env)) == env


def test_many_jobs_take_little_memory(store: Store) -> None:
    """What inserting needs beside the specs themselves does not grow into a copy of them all."""
    count = 100_000 if SOAK else 10_000
    specs = [spec()] * count
    tracemalloc.start()
    try:
        with store.write() as session:
            ids = jobs.insert_jobs(session, specs, owner_uid=1, owner="ann", host_id=HOST, at=AT, first_seq=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ids == list(range(1, count + 1))
    assert peak < 8 * 2**20 + 100 * count
    with store.read() as session:
        assert jobs.counts(session) == {JobState.QUEUED: count}


def test_the_projection_holds_waiting_jobs_with_what_orders_them(store: Store, submit: Submit) -> None:
    submit(
        [
            spec(name="first", datasets=("b", "a")),
            spec(name="held", hold=True),
            spec(name="data", demand=Demand(2, frozenset({"l40s-48g"}), 7, share=True), duration=5.0),
            spec(name="gone"),
        ],
        first_seq=11,
    )
    key = 10**40
    with store.write() as session:
        jobs.update_job(session, 4, state=JobState.RUNNING)
        jobs.update_job(session, 3, move_key=-key, moved_by="bob", not_before=AT + timedelta(minutes=1))
    with store.read() as session:
        first, held, data = jobs.load_waiting(session)
        assert [job.id for job in jobs.active(session)] == [4]
    assert (first.id, first.name, first.datasets, first.submitted_seq) == (1, "first", ("b", "a"), 11)
    assert (held.state, held.holds) == (JobState.HELD, frozenset({Hold.USER}))
    assert (data.gpus, data.gpu_types, data.gpu_memory, data.share) == (2, ("l40s-48g",), 7, True)
    assert (data.move_key, data.not_before, data.version) == (-key, AT + timedelta(minutes=1), 2)


def test_states_and_holds_can_be_given(store: Store, submit: Submit) -> None:
    submit(
        [spec(), spec()],
        states=[JobState.QUEUED, JobState.HELD],
        holds=[frozenset(), frozenset({Hold.REVIEW, Hold.USER})],
        hold_reason="new owner",
    )
    with store.read() as session:
        assert jobs.get(session, 1).holds == frozenset()
        assert jobs.get(session, 2).holds == frozenset({Hold.USER, Hold.REVIEW})
        assert jobs.get(session, 2).hold_reason == "new owner"


def test_a_stale_change_is_refused(store: Store, submit: Submit) -> None:
    submit([spec()])
    with store.write() as session:
        assert jobs.update_job(session, 1, expect_version=1, priority=5) == 2
    with store.write() as session, pytest.raises(Refused) as caught:
        jobs.update_job(session, 1, expect_version=1, priority=9)
    assert (caught.value.code, caught.value.sentence) == (
        "changed",
        "Job #1 changed since it was shown; look at it again.",
    )
    with store.write() as session:
        assert jobs.get(session, 1).priority == 5
        assert jobs.update_job(session, 1, priority=6) == 3


def test_what_is_not_there_is_said(store: Store) -> None:
    with store.write() as session:
        for act in (
            lambda: jobs.get(session, 7),
            lambda: jobs.update_job(session, 7, priority=1),
            lambda: runs.get_run(session, "x"),
            lambda: runs.update_run(session, "x", exit_code=1),
            lambda: datasets.get_dataset(session, "x"),
        ):
            with pytest.raises(Refused) as caught:
                act()
            assert caught.value.code == "not_found"


def test_a_word_that_is_no_state_is_not_stored(store: Store, submit: Submit) -> None:
    submit([spec()])
    with pytest.raises(StatementError), store.write() as session:
        jobs.update_job(session, 1, state="sleeping")
    with store.read() as session:
        assert jobs.get(session, 1).state is JobState.QUEUED


def test_many_jobs_change_together(store: Store, submit: Submit) -> None:
    submit([spec() for _ in range(1200)])
    with store.write() as session:
        jobs.update_jobs(session, range(1, 1101), state=JobState.CANCELLED, ended_at=AT)
        jobs.set_move_keys(session, {1199: 2**80, 1200: None})
    with store.read() as session:
        assert jobs.counts(session) == {JobState.CANCELLED: 1100, JobState.QUEUED: 100}
        found = jobs.get_many(session, [1, 1199, 1200, 5000])
    assert {n: (job.version, job.move_key) for n, job in found.items()} == {
        1: (2, None),
        1199: (1, 2**80),
        1200: (1, None),
    }


def test_ended_jobs_newest_first(store: Store, submit: Submit) -> None:
    submit([spec(name=f"train_{n}", project="a" if n % 2 else "b") for n in range(6)])
    with store.write() as session:
        for job_id in (1, 2, 3, 4):
            state = JobState.FAILED if job_id == 3 else JobState.SUCCEEDED
            jobs.update_job(session, job_id, state=state, ended_at=AT + timedelta(minutes=job_id % 3), exit_code=0)
    with store.read() as session:

        def ids(offset: int = 0, limit: int = 100, **how: object) -> list[int]:
            which = ended.Which(**how)  # type: ignore[arg-type]
            found = [job.id for job in ended.page(session, which, offset, limit)]
            assert ended.count(session, which) == len(found) or (offset, limit) != (0, 100)
            assert offset or [ended.place(session, which, job_id) for job_id in found] == list(range(len(found)))
            return found

        assert ids() == [2, 4, 1, 3]
        assert ids(reverse=True) == [3, 1, 4, 2]
        assert ids(offset=1, limit=2) == [4, 1]
        assert ids(states={JobState.FAILED, JobState.QUEUED}) == [3]
        assert ids(project="a") == [2, 4]
        assert ids(owner="bob") == []
        assert ids(words=["TRAIN_"]) == [2, 4, 1, 3]
        assert ids(words=["train", "failed"]) == [3]
        assert ids(words=["train", "failed"], invert=True) == [2, 4, 1]
        assert ids(words=["#4"]) == [4]
        assert ids(words=["n%"]) == []
        assert ended.place(session, ended.Which(project="a"), 1) is None
        assert ended.place(session, ended.Which(), 5) is None


def test_ended_jobs_in_other_orders(store: Store, submit: Submit) -> None:
    classes = ("filler", "core", "normal")
    submit([spec(name=f"N{n}", priority_class=classes[n], priority=n) for n in range(3)])
    with store.write() as session:
        for job_id, started in ((1, None), (2, 5), (3, 2)):
            began = None if started is None else AT + timedelta(seconds=started)
            ended_at = AT + timedelta(seconds=10 * job_id)
            jobs.update_job(session, job_id, state=JobState.SUCCEEDED, started_at=began, ended_at=ended_at)
    with store.read() as session:

        def ids(sort: str, *, reverse: bool = False) -> list[int]:
            return [job.id for job in ended.page(session, ended.Which(sort=sort, reverse=reverse))]

        assert ids("class") == [2, 3, 1]
        assert ids("class", reverse=True) == [1, 3, 2]
        assert ids("priority") == [3, 2, 1]
        assert ids("name") == ids("owner") == ids("ended") == ids("submitted") == [1, 2, 3]
        assert ids("started") == [3, 2, 1]
        assert ids("elapsed") == [2, 3, 1]


def test_times_come_back_aware_and_naive_ones_are_refused(store: Store, submit: Submit) -> None:
    tokyo = datetime(2026, 12, 1, 0, 30, tzinfo=timezone(timedelta(hours=9)))
    submit([spec()], at=tokyo)
    with store.read() as session:
        found = jobs.get(session, 1).submitted_at
    assert found == tokyo
    assert found.tzinfo is UTC
    with pytest.raises(StatementError, match="timezone"), store.write() as session:
        jobs.update_job(session, 1, ended_at=datetime(2026, 1, 1))  # noqa: DTZ001


def test_an_act_within_a_group_can_fail_alone(store: Store, submit: Submit) -> None:
    submit([spec(), spec()])

    def stale_act() -> None:
        with session.begin_nested():
            jobs.update_job(session, 1, priority=2)
            jobs.update_job(session, 2, expect_version=9, priority=2)

    with store.write() as session:
        jobs.update_job(session, 1, priority=1)
        with pytest.raises(Refused):
            stale_act()
        jobs.update_job(session, 2, priority=3)
    with store.read() as session:
        assert [jobs.get(session, n).priority for n in (1, 2)] == [1, 3]


def test_a_block_that_raises_changes_nothing(store: Store, submit: Submit) -> None:
    submit([spec()])

    def failing_act() -> None:
        with store.write() as session:
            jobs.update_job(session, 1, priority=1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing_act()
    with store.read() as session:
        assert jobs.get(session, 1).priority == 0


def test_a_reader_sees_one_moment_and_cannot_write(store: Store, submit: Submit) -> None:
    submit([spec()])
    with store.read() as session:
        assert jobs.get(session, 1).priority == 0
        with store.write() as writer:
            jobs.update_job(writer, 1, priority=1)
        assert jobs.get(session, 1).priority == 0
    with pytest.raises(Exception, match="can't be written"), store.read() as session:
        jobs.update_job(session, 1, priority=2)


def test_skypilot_4552_a_thousand_ends_at_once(store: Store, submit: Submit) -> None:
    submit([spec() for _ in range(1000)])
    done = threading.Event()

    def end(first: int) -> None:
        for job_id in range(first, 1001, 8):
            with store.write() as session:
                jobs.update_job(session, job_id, state=JobState.SUCCEEDED, ended_at=AT, exit_code=0)

    def look() -> None:
        while not done.is_set():
            with store.read() as session:
                ended.count(session, ended.Which())

    with ThreadPoolExecutor(9) as pool:
        watcher = pool.submit(look)
        writers = [pool.submit(end, first) for first in range(1, 9)]
        wait(writers)
        done.set()
    for future in (watcher, *writers):
        future.result()
    with store.read() as session:
        assert jobs.counts(session) == {JobState.SUCCEEDED: 1000}


def run(job_id: int, attempt: int, **changes: object) -> Run:
    values: dict[str, object] = {"run_id": f"run-{job_id}-{attempt}", "host_id": HOST, "granted_at": AT}
    return Run(job_id=job_id, attempt=attempt, **{**values, **changes})


def test_a_run_from_grant_to_release(store: Store, submit: Submit) -> None:
    submit([spec(), spec()])
    gpus = ("GPU-b", "GPU-a")
    with store.write() as session:
        runs.insert_run(session, run(1, 1, gpu_uuids=gpus, memory_at_grant={"GPU-a": 5, "GPU-b": None}))
        runs.insert_run(session, run(2, 1, granted_at=AT - timedelta(seconds=1)))
        runs.update_run(
            session, "run-1-1", state=RunState.RUNNING, pid=4242, start_time=2**40, boot_id="b", started_at=AT
        )
    with store.read() as session:
        assert [found.run_id for found in runs.open_runs(session, HOST)] == ["run-2-1", "run-1-1"]
        assert runs.open_runs(session, "host-2") == []
        found = runs.get_run(session, "run-1-1")
    assert (found.gpu_uuids, found.memory_at_grant) == (gpus, {"GPU-a": 5, "GPU-b": None})
    assert (found.pid, found.start_time, found.boot_id, found.state) == (4242, 2**40, "b", RunState.RUNNING)
    with store.write() as session:
        runs.update_run(session, "run-1-1", state=RunState.ENDED, ended_at=AT, exit_code=75, checkpoint="/c/\udcff")
        assert len(runs.open_runs(session)) == 2
        runs.release_run(session, "run-1-1", AT)
        runs.insert_run(session, run(1, 2, resumed_from="/c/\udcff"))
    with store.read() as session:
        assert [found.attempt for found in runs.runs_of(session, 1)] == [1, 2]
        latest = runs.latest(session, [1, 2, 3])
        assert {job_id: found.run_id for job_id, found in latest.items()} == {1: "run-1-2", 2: "run-2-1"}
        assert latest[1].resumed_from == "/c/\udcff"
        assert [found.run_id for found in runs.open_runs(session)] == ["run-2-1", "run-1-2"]


def test_an_attempt_is_stored_once_and_belongs_to_a_job(store: Store, submit: Submit) -> None:
    submit([spec()])
    with store.write() as session:
        runs.insert_run(session, run(1, 1))
    for bad in (run(1, 1, run_id="other"), run(9, 1)):
        with pytest.raises(IntegrityError), store.write() as session:
            runs.insert_run(session, bad)


def test_datasets(store: Store, submit: Submit) -> None:
    where = "/data/\udce9t\udce9/*.tar"
    values = {"host_id": HOST, "owner_uid": 1, "owner": "ann", "created_at": AT}
    with store.write() as session:
        datasets.insert_dataset(session, Dataset(name="laion", location=where, min_size=40 << 30, **values))
        datasets.insert_dataset(session, Dataset(name="c4", location="/c4", **values))
        with pytest.raises(Refused, match="already"):
            datasets.insert_dataset(session, Dataset(name="c4", location="/c4", **values))
    submit([spec(datasets=("laion",)), spec(datasets=("laion", "c4"))])
    with store.write() as session:
        laion = datasets.get_dataset(session, "laion")
        assert (laion.location, laion.min_size, laion.readiness, laion.ready) == (where, 42949672960, None, False)
        assert datasets.update_dataset(session, "laion", readiness=0.5, reason="50 %", checked_at=AT) == 2
        with pytest.raises(Refused, match="Dataset laion changed"):
            datasets.update_dataset(session, "laion", expect_version=1, ready=True)
        assert datasets.waiting_jobs(session) == {"laion": 2, "c4": 1}
        with pytest.raises(Refused, match="Dataset c4 stays: 1 waiting job needs it"):
            datasets.delete_dataset(session, "c4")
        jobs.update_job(session, 2, state=JobState.CANCELLED)
        datasets.delete_dataset(session, "c4")
        assert [found.name for found in datasets.all_datasets(session)] == ["laion"]
        assert jobs.datasets_of(session, [2]) == {2: ("laion", "c4")}
        jobs.set_datasets(session, 2, ["c4"])
        assert jobs.datasets_of(session, [1, 2]) == {1: ("laion",), 2: ("c4",)}


def test_job_rows_outlive_their_session(store: Store, submit: Submit) -> None:
    submit([spec()])
    with store.write() as session:
        job = jobs.get(session, 1)
    assert isinstance(job, Job)
    assert job.argv == (b"python", b"train.py")
