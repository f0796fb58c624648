"""Column types: bytes, big integers and names as the database keeps them, values that cannot change in place."""

from enum import StrEnum
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from gputui.domain.lifecycle import Hold


def plain(text: str) -> str:
    """Text that every database accepts: a lone surrogate (a byte that was not UTF-8) becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class PlainText(sa.types.TypeDecorator[str]):
    """Free text from people. What is not UTF-8 is kept as an escape: it is shown, never executed."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return value if value is None or value.isascii() else plain(value)


class PathBytes(sa.types.TypeDecorator[str]):
    """A path as the file system knows it: bytes that are not UTF-8 come back as the same surrogates."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        return None if value is None else value.encode("utf-8", "surrogateescape")

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else value.decode("utf-8", "surrogateescape")


class Argv(sa.types.TypeDecorator[tuple[bytes, ...]]):
    """Arguments as bytes, each ended by a NUL, which no argument can contain."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: tuple[bytes, ...] | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        return None if value is None else b"".join(arg + b"\0" for arg in value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> tuple[bytes, ...] | None:  # noqa: ARG002
        return None if value is None else tuple(value.split(b"\0")[:-1])


@lru_cache(maxsize=4096)
def _join(names: frozenset[str] | tuple[str, ...]) -> str:
    if any("\n" in name or not name for name in names):
        raise ValueError("a name is not empty and has no line break")
    return "\n".join(sorted(names) if isinstance(names, frozenset) else names)


@lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


class Names(sa.types.TypeDecorator[tuple[str, ...]]):
    """A few names without line breaks (UUIDs, GPU types), one a line. Equal values are one object when read."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(
        self,
        value: frozenset[str] | tuple[str, ...] | None,
        dialect: Dialect,  # noqa: ARG002
    ) -> str | None:
        return None if value is None else _join(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[str, ...] | None:  # noqa: ARG002
        return None if value is None else _split(value)


@lru_cache(maxsize=64)
def _joined(holds: frozenset[Hold]) -> str:
    return ",".join(sorted(Hold(hold).value for hold in holds))


@lru_cache(maxsize=64)
def _holds(text: str) -> frozenset[Hold]:
    return frozenset(Hold(word) for word in text.split(",")) if text else frozenset()


class Holds(sa.types.TypeDecorator[frozenset[Hold]]):
    """A set of holds as words with commas between."""

    impl = sa.String(64)
    cache_ok = True

    def process_bind_param(self, value: frozenset[Hold] | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else _joined(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> frozenset[Hold] | None:  # noqa: ARG002
        return None if value is None else _holds(value)


class BigKey(sa.types.TypeDecorator[int]):
    """An integer of any size, as decimal text. Not for comparing in SQL."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        return None if value is None else int(value)


def words(enum: type[StrEnum]) -> sa.Enum:
    """A column of an enum's values. A word that is not one of them is refused when written, not when read."""
    return sa.Enum(
        enum,
        values_callable=_values,
        native_enum=False,
        validate_strings=True,
        length=32,
    )


def _values(enum: Any) -> list[str]:
    return [member.value for member in enum]
