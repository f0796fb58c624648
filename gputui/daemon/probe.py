"""The prober: a child of the daemon that looks at datasets, one forked process per look.

Run by file path with the standard library only. A request is a JSON line on standard input, the answer one on standard
output with the same `id`. A look that misses its deadline is killed; one that cannot be killed (a dead mount) is left
behind, counted in `stuck`, and its dataset is not looked at again until it is gone. Nothing else waits for it.
"""

import glob
import json
import os
import select
import signal
import stat
import time
import zlib
from collections.abc import Callable, Iterator

Request = dict[str, object]
Answer = dict[str, object]

_PARTIAL_SUFFIXES = (".part", ".partial", ".incomplete", ".tmp", ".crdownload", ".aria2", ".filepart", ".download")
_OWN_CLOCK = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "jfs", "bcachefs"})
"""File systems whose times come from this machine's clock."""
_LARGEST_MANIFEST = 64 * 1024 * 1024


class Unclear(Exception):  # noqa: N818 - carries the phrase that people read
    """The dataset cannot be judged; the message says why, as a phrase."""


def observe(request: Request) -> Answer:
    """Look at `location` once. `quick`: only whether it and its marker are there."""
    location = str(request["location"])
    marker, manifest = request.get("marker"), request.get("manifest")
    try:
        roots = _roots(location)
        base = location if os.path.isdir(location) else os.path.dirname(roots[0]) if roots else location
        answer: Answer = {"found": bool(roots)}
        answer["marker"] = isinstance(marker, str) and os.path.exists(os.path.join(base, marker))
        # a file that comes or goes at the top shows in the time of its folder
        answer["top"] = sum(os.stat(root).st_mtime_ns for root in roots)
        if request.get("quick"):
            return answer
        if isinstance(manifest, str):
            answer["manifest"] = _manifest(os.path.join(base, manifest), base)
        return answer | _totals(roots)
    except Unclear as error:
        return {"problem": str(error)}
    except OSError as error:
        return {"problem": f"cannot be read: {error.strerror or type(error).__name__}"}


def _roots(location: str) -> list[str]:
    """What the location names: itself, or whatever its wildcards match. Errors other than absence are raised."""
    try:
        os.stat(location)
    except (FileNotFoundError, NotADirectoryError):
        return sorted(glob.glob(location, recursive=True)) if glob.has_magic(location) else []
    return [location]


def _entries(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below `root` and itself; links to files are followed, links to folders only at the top."""
    found = os.stat(root)
    yield root, found
    pending = [root] if stat.S_ISDIR(found.st_mode) else []
    while pending:
        with os.scandir(pending.pop()) as folder:
            for entry in folder:
                try:
                    inside = entry.stat()
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif stat.S_ISDIR(inside.st_mode):
                        continue
                except FileNotFoundError:  # gone meanwhile, or a link to nothing
                    continue
                yield entry.path, inside


def _totals(roots: list[str]) -> Answer:
    files = size = partial = mark = 0
    newest = 0.0
    counted: set[tuple[int, int]] = set()
    own_clock = True
    clocks: dict[int, bool] = {}
    for root in roots:
        for path, seen in _entries(root):
            newest = max(newest, seen.st_ctime)
            if seen.st_dev not in clocks:
                clocks[seen.st_dev] = _has_own_clock(seen.st_dev)
            own_clock = own_clock and clocks[seen.st_dev]
            mark += zlib.crc32(f"{path}\0{seen.st_size}\0{seen.st_mtime_ns}".encode("utf-8", "surrogateescape"))
            if not stat.S_ISREG(seen.st_mode):
                continue
            unfinished = _is_partial(os.path.basename(path))
            files += not unfinished
            if (seen.st_dev, seen.st_ino) not in counted:  # links to one file hold its bytes once
                counted.add((seen.st_dev, seen.st_ino))
                if unfinished:
                    partial += seen.st_size
                else:
                    size += seen.st_size
    age = time.time() - newest
    return {
        "files": files,
        "size": size,
        "partial": partial,
        "fingerprint": f"{files}.{size}.{partial}.{mark}",
        "quiet": age if own_clock and roots and age >= 0 else None,
    }


def _is_partial(name: str) -> bool:
    """Names that download tools give to unfinished files: suffixes, and rsync's `.name.Xa3dQz`."""
    if name.endswith(_PARTIAL_SUFFIXES):
        return True
    head, _, tail = name.rpartition(".")
    return name.startswith(".") and len(head) > 1 and len(tail) == 6 and tail.isalnum()


def _has_own_clock(device: int) -> bool:
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            head, _, tail = line.partition(" - ")
            if head.split()[2] == wanted:
                return tail.split()[0] in _OWN_CLOCK
    return False


def _manifest(path: str, base: str) -> Answer | None:
    """How far the named files are there; None while the manifest itself is not."""
    try:
        # O_NONBLOCK: a named pipe in its place must not hold us up
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Unclear("its manifest is not a plain file")
        text = file.read(_LARGEST_MANIFEST + 1)
    if len(text) > _LARGEST_MANIFEST:
        raise Unclear("its manifest is larger than 64MiB")
    files = complete = wanted_bytes = there_bytes = 0
    first_missing = ""
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        wanted, _, name = line.strip().partition(b" ")
        if not wanted.isdigit() or not name.strip():
            raise Unclear(f"line {number} of its manifest is not 'SIZE  NAME'")
        size = int(wanted)
        there = _size_of(os.path.join(os.fsencode(base), name.lstrip()))
        files += 1
        wanted_bytes += size
        there_bytes += min(size, there or 0)
        if there == size:
            complete += 1
        elif not first_missing:
            first_missing = os.fsdecode(name.lstrip())
    return {
        "files": files,
        "complete": complete,
        "bytes_wanted": wanted_bytes,
        "bytes_there": there_bytes,
        "first_missing": first_missing,
    }


def _size_of(path: bytes) -> int | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


class Look:
    """One forked process that looks at one dataset."""

    def __init__(self, request: Request, observing: Callable[[Request], Answer]) -> None:
        self.id = request["id"]
        self.key = request["location"]
        self.deadline = time.monotonic() + float(str(request["deadline"]))
        self.seconds = float(str(request["deadline"]))
        self.told = False
        self.data = b""
        self.pipe, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                # should the prober itself be killed, this still ends
                signal.setitimer(signal.ITIMER_REAL, self.seconds + 1)
                os.close(self.pipe)
                _write_all(write, json.dumps(observing(request)).encode("ascii"))
                status = 0
            finally:
                os._exit(status)
        os.close(write)

    def read(self) -> bool:
        """Take what is there; True once it has said everything."""
        data = os.read(self.pipe, 65536)
        self.data += data
        return not data

    def answer(self) -> Answer:
        """What it saw, or that it died over it."""
        try:
            seen = json.loads(self.data)
        except ValueError:
            return {"problem": "cannot be read: the look at it failed"}
        return seen if isinstance(seen, dict) else {}

    def gone(self) -> bool:
        """Whether the process has ended; it is reaped then."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def kill(self) -> None:
        """Ask the kernel to end it; a process caught in a dead mount ends when the mount lets it."""
        os.kill(self.pid, signal.SIGKILL)


def serve(observing: Callable[[Request], Answer] = observe) -> None:
    """Answer requests until standard input ends; then nothing of ours is left that can be ended."""
    looks: list[Look] = []
    pending = b""
    while True:
        waiting = [look.pipe for look in looks if not look.told]
        nearest = min((look.deadline for look in looks if not look.told), default=None)
        # a look that was told or given up is still to be reaped
        limit = 1.0 if len(waiting) < len(looks) else None
        if nearest is not None:
            until = max(0.0, nearest - time.monotonic())
            limit = until if limit is None else min(limit, until)
        ready = select.select([0, *waiting], [], [], limit)[0]
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                _begin(json.loads(line), looks, observing)
        for look in looks:
            if look.pipe in ready and look.read():
                _tell(look, look.answer(), looks)
            elif not look.told and time.monotonic() >= look.deadline:
                look.kill()
                _tell(look, {"problem": f"no answer within {look.seconds:g}s"}, looks)
        looks = [look for look in looks if not (look.told and look.gone())]
    for look in looks:
        look.kill()


def _begin(request: Request, looks: list[Look], observing: Callable[[Request], Answer]) -> None:
    if any(look.key == request["location"] and look.told and not look.gone() for look in looks):
        _write_all(
            1, _line({"id": request["id"], "problem": "an earlier look at it still hangs", "stuck": _stuck(looks)})
        )
        return
    try:
        looks.append(Look(request, observing))
    except OSError as error:
        _write_all(1, _line({"id": request["id"], "problem": f"cannot be looked at: {error.strerror}", "stuck": 0}))


def _tell(look: Look, answer: Answer, looks: list[Look]) -> None:
    look.told = True
    os.close(look.pipe)
    _write_all(1, _line({**answer, "id": look.id, "stuck": _stuck(looks)}))


def _stuck(looks: list[Look]) -> int:
    """Looks past their deadline whose processes are still there."""
    return sum(look.told and time.monotonic() >= look.deadline and not look.gone() for look in looks)


def _line(answer: Answer) -> bytes:
    return json.dumps(answer).encode("ascii") + b"\n"


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    # a Ctrl-C in the terminal of a foreground daemon is the daemon's to answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve()
