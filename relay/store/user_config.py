"""Where the user's own relay.toml lies. Called by the daemon and by local commands at their start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relay.errors import ConfigError

CONFIG_VARIABLE = "RELAY_CONFIG_DIR"
FILE_NAME = "relay.toml"


def user_config_dir(env: Mapping[str, str]) -> Path:
    """The folder that RELAY_CONFIG_DIR names, else `relay` in the platform's folder for configuration.

    Raises:
        ConfigError: the variable holds a relative path: daemon and client would not agree on it.
    """
    given = env.get(CONFIG_VARIABLE, "")
    if not given:
        import platformdirs

        return Path(platformdirs.user_config_dir("relay", appauthor=False))
    path = Path(given).expanduser()
    if not path.is_absolute():
        raise ConfigError(
            f"{CONFIG_VARIABLE} is {given!r}, a relative path", hint="set it to an absolute path"
        )
    return path
