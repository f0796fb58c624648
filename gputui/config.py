"""Settings of the daemon: `config.toml`, any of them also from the environment as `GPUTUI_<NAME>`.

Client sides never import this (pydantic costs more than the rest of a command); they ask `gputui.paths`.
"""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from gputui import paths
from gputui.domain.errors import InputError
from gputui.domain.units import parse_duration, parse_size

Size = Annotated[int, BeforeValidator(lambda value: parse_size(value, "it"))]
Duration = Annotated[float, BeforeValidator(lambda value: parse_duration(value, "it"))]


SCREEN_SECTIONS = ("screen", "keys")
"""Read by `gputui.tui.settings`; one file serves both."""


class Settings(BaseSettings):
    """Everything that can be set. Sizes and durations are typed as people write them: `512MiB`, `1h30m`."""

    model_config = SettingsConfigDict(
        env_prefix="GPUTUI_", env_ignore_empty=True, extra="forbid", coerce_numbers_to_str=True, frozen=True
    )

    state: Path | None = None
    """The state folder; `$XDG_STATE_HOME/gputui/<machine-id>` when not set."""
    socket: Path | None = None
    """Where to listen; in the user's runtime folder when not set."""
    store: str | None = None
    """A database URL; SQLite in the state folder when not set."""
    simulated_gpus: str = ""
    """`8`, or `4xh100-80g,2xl40s-48g`: simulated GPUs instead of the machine's own."""
    log_cap: Size = Field(default=64 * 1024**2, ge=64 * 1024)
    """Bytes of output kept per run: the beginning and the end."""
    log_days: int = Field(default=30, ge=1)
    """Days for which the output of an ended run is kept."""
    log_total: Size = 20 * 1024**3
    """Bytes that the output of all ended runs may take; beyond that the oldest goes first."""
    disk_low: Size = 512 * 1024**2
    """Nothing is started while the state folder has less room than this."""
    release_limit: Duration = Field(default=30.0, gt=0)
    """Seconds for a GPU's memory to come back after a run; then it is quarantined."""
    reading_days: int = Field(default=30, ge=1)
    """Days for which the minute-by-minute readings are kept."""
    probe_deadline: Duration = Field(default=10.0, ge=0.1)
    """Seconds for one look at a dataset; after that its readiness is unknown."""
    probe_fast: Duration = Field(default=2.0, ge=0.1)
    """Seconds between looks at a dataset that jobs wait for or that grows."""
    probe_slow: Duration = Field(default=60.0, ge=0.1)
    """Seconds between looks at one that is complete or that nobody waits for."""

    @property
    def state_dir(self) -> Path:
        """The state folder, absolute."""
        return paths.state_dir(self.state)

    @property
    def socket_path(self) -> Path:
        """Where the daemon listens, absolute."""
        return self.socket.expanduser().absolute() if self.socket is not None else paths.user_socket()

    @property
    def store_address(self) -> Path | str:
        """The store: a path or a database URL."""
        return self.store or self.state_dir / "gputui.db"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What the command line says wins over the environment, and that over the file."""
        return init_settings, env_settings, _File(settings_cls, paths.settings_file())


class _File(TomlConfigSettingsSource):
    """The settings file without the sections that are the screen's own."""

    def __call__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__call__().items() if name not in SCREEN_SECTIONS}


def load(**given: Any) -> Settings:
    """The settings in force; `given` are those of the command line, None meaning not said.

    Raises `InputError` that names the setting, its value and what it should be; secrets are never repeated.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            remedy = f"there is no such setting; see {paths.settings_file()}"
        elif isinstance(cause := first.get("ctx", {}).get("error"), InputError):
            remedy = cause.remedy
        else:
            remedy = first["msg"][:1].lower() + first["msg"][1:]
        raise InputError(_where(name), "..." if name == "store" else first["input"], remedy) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError("settings file", str(paths.settings_file()), f"it is not TOML: {error}") from None
    except OSError as error:
        raise InputError("settings file", str(paths.settings_file()), f"cannot be read: {error.strerror}") from None


def _where(name: str) -> str:
    variable = f"GPUTUI_{name.upper()}"
    return variable if variable in os.environ else name
