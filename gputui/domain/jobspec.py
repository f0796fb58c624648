"""A job as people write it (`protocol.JOB_FIELDS`), checked field by field and turned into a `JobSpec`.

Written by hand, since a bulk submit parses tens of thousands a second. Every refusal is one `InputError`. A value of
null is a field not given; numbers may come as text, as a CSV file has them.
"""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Final, NoReturn

from gputui.domain.errors import InputError
from gputui.domain.job import CLASSES, Demand, JobSpec
from gputui.domain.order import PRIORITY_LIMIT
from gputui.domain.units import parse_duration, parse_size

FIELDS: Final = frozenset(
    {
        "argv", "name", "project", "class", "priority", "gpus", "gpu_type", "gpu_memory", "share", "duration",
        "datasets", "hold", "retries", "grace", "checkpoint", "shell", "env", "cwd", "interactive", "time_limit",
    }
)  # fmt: skip
"""What a job may say."""

LONGEST_NAME: Final = 200
MOST_GPUS: Final = 65_536
MOST_RETRIES: Final = 1_000
MOST_DATASETS: Final = 1_000
LONGEST_ARGUMENT: Final = 128 * 1024 - 1
"""Bytes; Linux runs nothing with a longer one."""

_PYTHON = re.compile(r"python[\d.]*")
_WHOLE = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}


def encode_env(env: Mapping[str, str]) -> dict[bytes, bytes]:
    """Return an environment as bytes. Raises `InputError` for names and values no process can have."""
    encoded = {}
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise InputError("env", name, "a variable's name is not empty and has neither '=' nor a NUL byte")
        if not isinstance(value, str) or "\0" in value:
            # the value may be a secret: it is not repeated
            raise InputError("env", name, "its value must be text without a NUL byte")
        key, text = _encode("env", name), _encode("env", value, shown=name)
        if len(key) + 1 + len(text) > LONGEST_ARGUMENT:
            raise InputError("env", name, "Linux takes at most 128 KiB a variable; put its value into a file")
        encoded[key] = text
    return encoded


class JobParser:
    """Parses jobs that share a directory, an environment and the GPU types known; one per batch."""

    def __init__(self, *, cwd: str, env: Mapping[str, str], known_types: Collection[str] = ()) -> None:
        """`known_types` empty: any type is taken. Raises `InputError` for a bad `cwd` or `env`."""
        self._cwd = _directory(cwd)
        self._env = encode_env(env)
        self._known_types = known_types
        self._demands: dict[tuple[int, object, int, bool], Demand] = {}

    def parse(self, job: Mapping[str, object]) -> JobSpec:
        """Return the checked job. Raises `InputError` for the first thing wrong with it."""
        if not isinstance(job, Mapping):
            raise InputError("job", job, "write a mapping of fields such as argv and gpus")
        if unknown := job.keys() - FIELDS:
            _refuse_unknown(min(unknown, key=str))
        get = job.get
        shell = _truth("shell", get("shell"))
        argv = _argv(get("argv"), shell)
        raw = get("cwd")
        cwd = self._cwd if raw is None else _directory(raw)
        raw = get("env")
        env = self._env if raw is None else {**self._env, **_extra_env(raw)}
        raw = get("name")
        name = _name("name", raw) if raw is not None and raw != "" else default_name(argv, shell=shell)
        raw = get("project")
        project = "default" if raw is None or raw == "" else _name("project", raw)
        raw = get("class")
        priority_class = "normal" if raw is None or raw == "" else _class(raw)
        raw = get("priority")
        priority = 0 if raw is None else _whole("priority", raw, 1 - PRIORITY_LIMIT, PRIORITY_LIMIT - 1)
        raw = get("retries")
        retries = 0 if raw is None else _whole("retries", raw, 0, MOST_RETRIES)
        raw = get("duration")
        duration = None if raw is None or raw == "" else _positive("duration", raw)
        raw = get("time_limit")
        time_limit = None if raw is None or raw == "" else _positive("time_limit", raw)
        raw = get("grace")
        grace = 120.0 if raw is None else parse_duration(raw, "grace")
        raw = get("datasets")
        datasets = () if raw is None else _datasets(raw)
        raw = get("checkpoint")
        checkpoint = "" if raw is None else _checkpoint(raw)
        return JobSpec(
            argv=argv,
            cwd=cwd,
            env=env,
            name=name,
            project=project,
            priority_class=priority_class,
            priority=priority,
            demand=self._demand(job),
            duration=duration,
            datasets=datasets,
            hold=_truth("hold", get("hold")),
            retries=retries,
            grace=grace,
            checkpoint=checkpoint,
            shell=shell,
            interactive=_truth("interactive", get("interactive")),
            time_limit=time_limit,
        )

    def _demand(self, job: Mapping[str, object]) -> Demand:
        get = job.get
        raw = get("gpus")
        gpus = 1 if raw is None else _whole("gpus", raw, 0, MOST_GPUS)
        raw = get("gpu_memory")
        memory = 0 if raw is None or raw == "" else parse_size(raw, "gpu_memory")
        share = _truth("share", get("share"))
        if share and not memory:
            raise InputError("share", True, "a job that shares a GPU must say how much memory it needs (gpu_memory)")
        wanted = get("gpu_type")
        types = frozenset[str]() if wanted is None else self._types(wanted)
        if not gpus:
            if share:
                raise InputError("share", True, "a job without GPUs has none to share: drop share, or ask for a GPU")
            types, memory = frozenset(), 0
        key = (gpus, types, memory, share)
        demand = self._demands.get(key)
        if demand is None:
            demand = self._demands[key] = Demand(gpus, types, memory, share)
        return demand

    def _types(self, value: object) -> frozenset[str]:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)):
            raise InputError("gpu_type", value, "write GPU types as h100-80g or h100-80g,a100-80g")
        types = set()
        for part in parts:
            if not isinstance(part, str):
                raise InputError("gpu_type", value, "write GPU types as h100-80g or h100-80g,a100-80g")
            name = part.strip().lower()
            if not name and len(parts) > 1:
                raise InputError("gpu_type", value, "leave out the empty name between the commas")
            if name in {"", "any"}:
                continue
            if self._known_types and name not in self._known_types:
                known = ", ".join(sorted(self._known_types))
                raise InputError("gpu_type", part, f"no such GPU type here; there are {known}")
            types.add(name)
        return frozenset(types)


def parse_job(
    job: Mapping[str, object], *, cwd: str, env: Mapping[str, str], known_types: Collection[str] = ()
) -> JobSpec:
    """Parse one job; `JobParser` does many. Raises `InputError`."""
    return JobParser(cwd=cwd, env=env, known_types=known_types).parse(job)


def default_name(argv: tuple[bytes, ...], *, shell: bool = False) -> str:
    """Return what to call a job that was given no name: its program, or the script or module Python runs."""
    words = tuple(argv[0].split()) or argv if shell else argv
    name = _last_part(words[0])
    if _PYTHON.fullmatch(name):
        for at, word in enumerate(words[1:], 1):
            if word == b"-m" and at + 1 < len(words):
                return words[at + 1].decode("utf-8", "replace")[:LONGEST_NAME]
            if word in {b"-c", b"-"}:
                break
            if not word.startswith(b"-"):
                return _last_part(word)
    return name


def _last_part(word: bytes) -> str:
    return (word.rstrip(b"/").rpartition(b"/")[2] or word).decode("utf-8", "replace")[:LONGEST_NAME]


def _refuse_unknown(field: object) -> NoReturn:
    close = get_close_matches(str(field), FIELDS, 1)
    remedy = f"did you mean {close[0]}?" if close else "the fields are " + ", ".join(sorted(FIELDS))
    raise InputError("job", field, f"there is no such field; {remedy}")


def _encode(field: str, text: str, shown: object = None) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        remedy = "bytes that are not UTF-8 are written as lone surrogates U+DC80 to U+DCFF, nothing else"
        raise InputError(field, text if shown is None else shown, remedy) from None


def _argv(value: object, shell: bool) -> tuple[bytes, ...]:
    if not isinstance(value, (list, tuple)) or not value:
        raise InputError("argv", value, "write the program and its arguments as a list of strings")
    if shell and len(value) != 1:
        raise InputError("argv", value, "with shell, write the whole command as one string")
    argv = []
    for word in value:
        if type(word) is not str:
            raise InputError("argv", word, "each argument must be a string")
        if "\0" in word:
            raise InputError("argv", word, "an argument cannot hold a NUL byte")
        encoded = _encode("argv", word)
        if len(encoded) > LONGEST_ARGUMENT:
            raise InputError("argv", word, "Linux takes at most 128 KiB an argument; put it into a file")
        argv.append(encoded)
    if not argv[0] or (shell and argv[0].isspace()):
        raise InputError("argv", value, "the program's name is empty")
    return tuple(argv)


def _directory(value: object) -> bytes:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise InputError("cwd", value, "write an absolute path such as /home/me/project")
    return _encode("cwd", value)


def _extra_env(value: object) -> dict[bytes, bytes]:
    if not isinstance(value, Mapping):
        raise InputError("env", type(value).__name__, "write a mapping of names to values")
    return encode_env(value)


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(field, value, "write a short text")
    if len(value) > LONGEST_NAME:
        raise InputError(field, value, f"at most {LONGEST_NAME} characters")
    if "\0" in value:
        raise InputError(field, value, "leave out the NUL byte")
    # a file name that is not UTF-8 may end up here; the store takes only what is
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _class(value: object) -> str:
    if not isinstance(value, str) or value not in CLASSES:
        raise InputError("class", value, "write one of " + ", ".join(CLASSES))
    return value


def _whole(field: str, value: object, least: int, most: int) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        number = int(value)
    elif type(value) is int:
        number = value
    else:
        raise InputError(field, value, f"write a whole number from {least} to {most}")
    if not least <= number <= most:
        raise InputError(field, value, f"write a whole number from {least} to {most}")
    return number


def _positive(field: str, value: object) -> float:
    seconds = parse_duration(value, field)
    if not seconds:
        raise InputError(field, value, "write a duration above zero, such as 90, 1h30m or 2d")
    return seconds


def _truth(field: str, value: object) -> bool:
    if value is None:
        return False
    if type(value) is bool:
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUTH:
        return _TRUTH[value.strip().lower()]
    raise InputError(field, value, "write true or false")


def _datasets(value: object) -> tuple[str, ...]:
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if value == "":
        return ()
    if not isinstance(names, (list, tuple)) or len(names) > MOST_DATASETS:
        raise InputError("datasets", value, f"write a list of at most {MOST_DATASETS} dataset names")
    return tuple(dict.fromkeys(_name("datasets", name) for name in names))


def _checkpoint(value: object) -> str:
    if not isinstance(value, str) or "\0" in value or len(value) > 4096:
        raise InputError("checkpoint", value, "write a glob such as ckpt-*.pt")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError("checkpoint", value, "write it in UTF-8, with ? for bytes that are not") from None
    return value
