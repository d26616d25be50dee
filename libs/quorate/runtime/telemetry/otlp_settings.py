"""How the environment has spans and metrics exported by OTLP: through which proxy, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from quorate.runtime.connections.transport import WITHOUT_PROXY, Options
from quorate.runtime.settings.config import ConfigError

__all__ = ["PROXY", "channel_options", "checked_variables"]

PROXY: Final = "QUORATE_OTLP_PROXY"
"""The variable that names the HTTP proxy to a collector outside. https_proxy and the like are for none of our calls."""


def channel_options(environ: Mapping[str, str]) -> Options:
    """Returns gRPC's options of the channel to the collector: no proxy but that of `PROXY`. Raises ConfigError."""
    proxy = environ.get(PROXY, "")
    if not proxy:
        return WITHOUT_PROXY
    if not re.fullmatch(r"http://[^/\s]+:[0-9]{1,5}/?", proxy):
        raise ConfigError([f"{PROXY} = {proxy!r}: must be a URL http://host:port, as HTTP CONNECT is spoken to it"])
    return (("grpc.http_proxy", proxy),)


@contextmanager
def checked_variables(environ: Mapping[str, str]) -> Iterator[None]:
    """For a block in which the SDK reads its OTEL_* variables: what it cannot read in them becomes ConfigError."""
    from opentelemetry.exporter.otlp.proto.grpc.exporter import InvalidCompressionValueException

    try:
        yield
    except (ValueError, InvalidCompressionValueException) as problem:
        given = ", ".join(sorted(name for name in environ if name.startswith("OTEL_")))
        raise ConfigError([f"OpenTelemetry cannot read its variables ({given}): {problem}"]) from None
