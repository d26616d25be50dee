#!/usr/bin/env bash
# grpcio 1.85.1, client: grpc.min_reconnect_backoff_ms does more than wait between attempts.
#
# Its description is the least time between two attempts to connect. It is also how long an attempt may take, TCP,
# TLS and HTTP/2's first SETTINGS together: a channel with 500 ms gives up a server that needs longer for these, and
# begins anew. A pause that is made short, so that a restarted server is found soon, keeps a client from one that is busy.
#
# Seen (a listener on 127.0.0.1 that accepts and says nothing; after how long the client ends its first connection):
#   grpc.min_reconnect_backoff_ms=500: 0.5 to 0.8 s
#   grpc.min_reconnect_backoff_ms=3000: 3.0 s
#
# Exits with 0 while this holds, and with 1 if it has changed.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.1

cat > "$directory/attempt.py" <<'PYTHON'
import socket
import sys
import time

import grpc


def lasted(backoff_ms: int) -> float:
    """How long (s) the first connection of a channel lasts at a listener that says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        options = (("grpc.min_reconnect_backoff_ms", backoff_ms),)
        with grpc.insecure_channel(f"127.0.0.1:{listener.getsockname()[1]}", options=options) as channel:
            channel.subscribe(lambda state: None, try_to_connect=True)
            connection, _ = listener.accept()
            begun = time.monotonic()
            with connection:
                connection.settimeout(60)
                while connection.recv(65536):
                    pass
            return time.monotonic() - begun


for asked_ms in (500, 3000):
    seconds = lasted(asked_ms)
    print(f"grpc.min_reconnect_backoff_ms={asked_ms}: {seconds:.1f} s")
    if not 0.8 * asked_ms <= 1000 * seconds <= 2 * asked_ms:
        sys.exit("an attempt does not end with the backoff any more")
PYTHON

"$directory/venv/bin/python" "$directory/attempt.py"
