"""The fork server: loads the supervisor's code once and forks a supervisor per request. Run by file path.

Standard input is a SOCK_SEQPACKET socket: a request is a run directory, the reply `PID` with a pidfd of it, or
`!REASON`. It ends when the socket does. A supervisor that it forked leads a session of its own and outlives it.
"""

import gc
import os
import signal
import socket
import sys

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from gputui.engines.supervision import faults
from gputui.engines.supervision.supervise import supervise

LARGEST_REQUEST = 8192


def serve(requests: socket.socket) -> None:
    """Answer until the daemon is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects supervisors that have ended
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # one meant for a supervisor that does not listen yet
    gc.collect()
    gc.freeze()
    while request := requests.recv(LARGEST_REQUEST):
        faults.step("zygote-asked")
        try:
            pid = os.fork()
        except OSError as problem:
            requests.send(b"!" + (problem.strerror or "fork failed").encode())
            continue
        if pid == 0:
            _become_supervisor(requests, os.fsdecode(request))
        _answer(requests, pid)


def _become_supervisor(requests: socket.socket, run_dir: str) -> None:
    code = 1
    try:
        nothing = os.open("/dev/null", os.O_RDWR)
        os.dup2(nothing, 0)  # the socket lies there
        requests.close()
        os.setsid()
        code = supervise(run_dir, interactive=False)
    finally:
        os._exit(code)


def _answer(requests: socket.socket, pid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:  # it is over already
        requests.send(b"%d" % pid)
        return
    faults.step("zygote-forked")
    socket.send_fds(requests, [b"%d" % pid], [fd])
    os.close(fd)


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(0)))
