"""Captured environments, each stored once under the hash of its bytes."""

import hashlib
from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlmodel import Session, SQLModel

from gputui.domain.errors import Refused
from gputui.store.tables import Environment

_ENVIRONMENT = SQLModel.metadata.tables["environment"]
_CHUNK = 500


def pack(env: Mapping[bytes, bytes]) -> bytes:
    """`NAME=value` entries in order of name, each ended by a NUL."""
    return b"".join(name + b"=" + value + b"\0" for name, value in sorted(env.items()))


def unpack(blob: bytes) -> dict[bytes, bytes]:
    """The inverse of `pack`."""
    entries = (entry.partition(b"=") for entry in blob.split(b"\0")[:-1])
    return {name: value for name, _, value in entries}


def store(session: Session, envs: Iterable[Mapping[bytes, bytes]]) -> list[str]:
    """Store what is not there yet; the hash of each, in order. Equal ones, and one shared by many jobs, cost once."""
    hashes: list[str] = []
    fresh: dict[str, bytes] = {}
    seen: dict[int, tuple[Mapping[bytes, bytes], str]] = {}  # keeps the mapping alive, so that its id stays its own
    for env in envs:
        known = seen.get(id(env))
        if known is None:
            blob = pack(env)
            digest = hashlib.sha256(blob).hexdigest()
            known = seen[id(env)] = (env, digest)
            fresh[digest] = blob
        hashes.append(known[1])
    existing = _existing(session, fresh)
    missing = [digest for digest in fresh if digest not in existing]
    if missing:
        session.execute(sa.insert(_ENVIRONMENT), [{"hash": digest, "blob": fresh[digest]} for digest in missing])
    return hashes


def _existing(session: Session, digests: Iterable[str]) -> set[str]:
    found: set[str] = set()
    wanted = list(digests)
    for first in range(0, len(wanted), _CHUNK):
        query = sa.select(_ENVIRONMENT.c.hash).where(_ENVIRONMENT.c.hash.in_(wanted[first : first + _CHUNK]))
        found.update(session.execute(query).scalars())
    return found


def environment(session: Session, digest: str) -> dict[bytes, bytes]:
    """The environment stored under `digest`. Raises `Refused` when there is none."""
    row = session.get(Environment, digest)
    if row is None:
        raise Refused("not_found", "The environment of this job is not in the store.")
    return unpack(row.blob)
