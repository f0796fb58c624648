"""The forked child of a supervisor, from fork to exec."""

import contextlib
import errno
import os
import signal

from gputui.engines.supervision import faults, records

STEP_DIRECTORY = b"d"
STEP_EXEC = b"x"
_KEPT = (signal.SIGKILL, signal.SIGSTOP)


class Plan:
    """What the child is to become, and the descriptors that it gets."""

    __slots__ = ("argv", "cwd", "env", "gate", "inherited", "output", "report", "run_dir")

    def __init__(self, run_dir: str, argv: list[bytes], cwd: bytes, env: dict[bytes, bytes]) -> None:
        self.run_dir = run_dir
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.output: int | None = None
        """For standard output and error; None leaves the terminal in place."""
        self.inherited: list[int] = []
        """Locks that live as long as the job does."""
        self.gate = -1
        """One byte read from it opens the way to exec; its end closes it for good."""
        self.report = -1
        """Where the error number goes when exec fails; closes on exec."""


def become(plan: Plan) -> None:
    """Wait at the gate, then become the program. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in set(signal.valid_signals()).difference(_KEPT):
            with contextlib.suppress(OSError, ValueError):  # the C library keeps two for itself
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if plan.output is not None:
            os.setsid()
        faults.step("gated")
        if not os.read(plan.gate, 1):
            records.touch(f"{plan.run_dir}/noexec")
            os._exit(0)
        faults.step("before-exec")
        _execute(plan)
    finally:
        os._exit(127)


def _execute(plan: Plan) -> None:
    step = STEP_DIRECTORY
    try:
        os.chdir(plan.cwd)
        step = STEP_EXEC
        for fd in plan.inherited:
            os.set_inheritable(fd, True)
        if plan.output is not None:
            nothing = os.open("/dev/null", os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(plan.output, 1)
            os.dup2(plan.output, 2)
        os.execvpe(plan.argv[0], plan.argv, plan.env)  # noqa: S606 - no shell: argv is a list of bytes
    except (OSError, ValueError) as problem:
        number = problem.errno if isinstance(problem, OSError) and problem.errno else 0
        os.write(plan.report, step + b"%d" % number)


def explain(report: bytes, argv: list[bytes], cwd: bytes) -> str:
    """The sentence for people about a failed exec."""
    number = int(report[1:])
    why = "no such file" if number == 2 else os.strerror(number).lower() if number else "an argument holds a NUL byte"
    if report[:1] == STEP_DIRECTORY:
        why = "no such directory" if number == 2 else why
        return f"cannot enter the directory {_show(cwd)}: {why}"
    program = argv[0] if argv else b""
    if number == errno.E2BIG:
        why = "its arguments and environment are larger than Linux takes at once"
    if number == 2 and b"/" in program and os.path.exists(os.path.join(cwd, program)):
        why = "the interpreter that its first line names is missing"
    return f"cannot run {_show(program)}: {why}"


def _show(value: bytes) -> str:
    return value[:500].decode("utf-8", "backslashreplace")
