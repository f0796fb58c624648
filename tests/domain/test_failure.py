"""Every ended run can say why it ended."""

import signal

import pytest

from gputui.domain.failure import EndFacts, ForeignHolder, explain_end, signal_name

GIB = 1 << 30


@pytest.mark.parametrize(
    ("facts", "sentence", "kind"),
    [
        (EndFacts("exited", exit_code=1), "exited with code 1", "exit"),
        (EndFacts("exited", exit_code=0), "exited with code 0", "exit"),
        (EndFacts("exited"), "ended, its exit code is unknown", "exit"),
        (EndFacts("exited", exit_code=137), "exited with code 137 (SIGKILL inside the run)", "exit"),
        (EndFacts("signalled", signal=signal.SIGSEGV), "ended by SIGSEGV", "signal"),
        (EndFacts("signalled", signal=15, by="li"), "ended by SIGTERM by li", "signal"),
        (EndFacts("signalled", signal=9), "ended by SIGKILL from an unknown sender", "signal"),
        (
            EndFacts("signalled", signal=9, oom_killed=True),
            "ended by SIGKILL: the host ran out of memory and the kernel killed it",
            "oom",
        ),
        (
            EndFacts("noexec", error="cannot run train.py: no such file"),
            "cannot run train.py: no such file",
            "noexec",
        ),
        (EndFacts("cancelled", by="li", note="wrong data"), "cancelled by li (wrong data)", "cancelled"),
        (EndFacts("time_limit", time_limit=7200.0), "stopped at its time limit of 7200 s", "time_limit"),
        (
            EndFacts("lost", note="the machine was restarted"),
            "its end was not seen (the machine was restarted)",
            "lost",
        ),
        (EndFacts("gone"), "its run directory is gone; whether it still runs is unknown", "lost"),
        (EndFacts("revoked"), "it never began", "revoked"),
        (
            EndFacts("exited", exit_code=1, xids=[("GPU 3", 79)]),
            "exited with code 1: GPU 3 reported Xid 79 (the GPU fell off the bus) near its end",
            "xid",
        ),
        (EndFacts("exited", exit_code=1, disk_full="/data"), "exited with code 1: /data was full", "disk"),
        (
            EndFacts("exited", exit_code=1, log_tail="OSError: [Errno 28] No space left on device"),
            "exited with code 1: no space left on a disk by its log",
            "disk",
        ),
        (
            EndFacts("exited", exit_code=1, log_tail="Traceback\n  File\nValueError: bad seed\n\n"),
            "exited with code 1; last line: ValueError: bad seed",
            "exit",
        ),
    ],
)
def test_the_likeliest_cause_comes_first(facts: EndFacts, sentence: str, kind: str) -> None:
    reason = explain_end(facts)
    assert reason.sentence == sentence
    assert reason.waits_for[0].kind == kind


def test_out_of_gpu_memory_names_who_held_the_rest() -> None:
    facts = EndFacts(
        "exited",
        exit_code=1,
        log_tail="step 100\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        foreign=[ForeignHolder("GPU 3", int(21.3 * GIB), "python (wang)")],
    )
    assert explain_end(facts).sentence == (
        "exited with code 1: out of GPU memory by its log; python (wang) held 21.3 GiB of GPU 3"
    )


def test_a_foreign_holder_is_told_but_not_blamed_without_a_sign() -> None:
    reason = explain_end(EndFacts("exited", exit_code=2, foreign=[ForeignHolder("GPU 3", GIB, "python (wang)")]))
    assert reason.sentence == "exited with code 2"
    assert ("foreign", "others held memory on its GPUs; python (wang) held 1 GiB of GPU 3") in [
        (wait.kind, wait.what) for wait in reason.waits_for
    ]


def test_the_last_lines_are_listed() -> None:
    reason = explain_end(EndFacts("exited", exit_code=1, log_tail="1\n2\n3\n\n4\n"))
    assert [wait.what for wait in reason.waits_for if wait.kind == "log"] == ["2", "3", "4"]


def test_signals_without_a_name() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(77) == "signal 77"
