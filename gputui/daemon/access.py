"""Who may do what: one table of roles and acts, asked by every route before anything else happens."""

import os
import pwd
from dataclasses import dataclass
from enum import StrEnum

from gputui.domain.errors import Refused
from gputui.protocol import ErrorCode


class Role(StrEnum):
    """What a caller is to this daemon. Each may do what the table says, and no role includes another in silence."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"


class Act(StrEnum):
    """Every act of the API, named as the audit log names it; `view` covers whatever only reads."""

    VIEW = "view"
    LOG = "job.log"
    SUBMIT = "job.submit"
    EDIT = "job.edit"
    MOVE = "job.move"
    START = "job.start"
    GRANT = "job.grant"
    HOLD = "job.hold"
    RELEASE = "job.release"
    CANCEL = "job.cancel"
    REQUEUE = "job.requeue"
    UNDO = "undo"
    DATASET = "dataset.change"
    CORDON = "gpu.cordon"
    FREEZE = "freeze"
    AUDIT = "audit.read"
    STOP = "daemon.stop"


_VIEWS = frozenset({Act.VIEW})
_SUBMITS = _VIEWS | {Act.LOG, Act.SUBMIT, Act.EDIT, Act.GRANT, Act.HOLD, Act.RELEASE, Act.CANCEL, Act.REQUEUE, Act.UNDO}
_OPERATES = _SUBMITS | {Act.MOVE, Act.START, Act.DATASET, Act.CORDON, Act.FREEZE, Act.AUDIT}

ALLOWED: dict[Role, frozenset[Act]] = {
    Role.VIEWER: _VIEWS,
    Role.SUBMITTER: _SUBMITS,
    Role.OPERATOR: _OPERATES,
    Role.ADMIN: frozenset(Act),
}


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end, as the kernel names it; never as it names itself."""

    pid: int
    uid: int
    gid: int

    @property
    def user(self) -> str:
        """The login name, or the number where this machine knows none."""
        return user_name(self.uid)


def user_name(uid: int) -> str:
    """The login name of `uid`, or the number where this machine knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def role_of(peer: Peer) -> Role | None:
    """A user daemon answers its own user and root, both in full, and nobody else."""
    return Role.ADMIN if peer.uid in (os.geteuid(), 0) else None


def check(peer: Peer, act: Act) -> Role:
    """The caller's role when it may do `act`; else `Refused` with a sentence that says who may."""
    role = role_of(peer)
    if role is not None and act in ALLOWED[role]:
        return role
    owner = user_name(os.geteuid())
    who = owner if owner == "root" else f"{owner} and root"
    raise Refused(ErrorCode.NOT_ALLOWED, f"{peer.user} may not use this daemon: it answers only {who}.")
