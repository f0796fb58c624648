"""Who may do what: the table, and the sentence for those who may not."""

import os

import pytest

from gputui.daemon.access import ALLOWED, Act, Peer, Role, check
from gputui.domain.errors import Refused

STRANGER = 65534 if os.geteuid() != 65534 else 12345


def test_every_role_has_its_line_and_every_act_somebody_who_may() -> None:
    assert set(ALLOWED) == set(Role)
    assert frozenset().union(*ALLOWED.values()) == set(Act)


def test_viewers_only_view() -> None:
    assert ALLOWED[Role.VIEWER] == {Act.VIEW}


@pytest.mark.parametrize("act", list(Act))
def test_the_daemons_own_user_and_root_may_do_everything(act: Act) -> None:
    for uid in (os.geteuid(), 0):
        assert check(Peer(1, uid, uid), act) is Role.ADMIN


@pytest.mark.parametrize("act", list(Act))
def test_nobody_else_may_do_anything_and_is_told_who_may(act: Act) -> None:
    with pytest.raises(Refused) as refused:
        check(Peer(1, STRANGER, STRANGER), act)
    assert refused.value.code == "not_allowed"
    assert "it answers only" in refused.value.sentence
    assert "root" in refused.value.sentence
