"""`--print-grpcurl`: the line of grpcurl that does what a command does."""

from __future__ import annotations

import json
import shlex
from typing import Any

from quorate.cli.grpc_call import Servers
from quorate.cli.messages import Method

__all__ = ["grpcurl_line"]


def grpcurl_line(servers: Servers, method: Method, *requests: Any) -> str:  # Any: JSON values
    """Returns the command line of grpcurl that calls a method of the first of the servers; nothing is called.

    Its words are quoted for a shell. Raises Misused, OSError.
    """
    known = servers.security()
    if known is None:
        security = ["-plaintext"]
    else:  # the key and its certificate are in one file, in which grpcurl finds each
        key = str(known.files.keystore)
        security = ["-cacert", str(known.files.truststore), "-cert", key, "-key", key]
        if known.authorization is not None:  # whose value is a secret: grpcurl takes it from the environment
            security += ["-expand-headers", "-H", "authorization: ${AUTHORIZATION}"]
    data = "".join(json.dumps(each, ensure_ascii=False) for each in requests)
    name = f"{method.containing_service.full_name}/{method.name}"
    return shlex.join(["grpcurl", *security, "-d", data, servers.addresses()[0], name])
