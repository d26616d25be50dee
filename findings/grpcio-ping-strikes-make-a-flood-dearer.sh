#!/usr/bin/env bash
# grpcio 1.85.1, server: a limit on PINGs (grpc.http2.max_ping_strikes, 2 by default) makes a flood of them dearer.
#
# Once a client has sent too many PINGs the server is to say GOAWAY (ENHANCE_YOUR_CALM) and to close. But PINGs that have
# been read already are handled one by one, and each seems to be added to the error with which the connection is to be
# closed: perf has two thirds of the samples in memmove and memset. So the cost grows with the square of how many were
# sent. Meanwhile all threads of the server are in this, and other connections wait: beside 5 connections of a client
# that goes on for 3 s, calls of others took up to 6 s. With max_ping_strikes=0 each PING is answered, for a hundredth.
#
# Seen (processor time of the server for so many PINGs sent at once on one connection; two runs):
#   by default:         8,000: 0.06 s;  16,000: 0.25 s;  32,000: 0.42 s
#   max_ping_strikes=0: 8,000: 0.00 s;  16,000: 0.00 s;  32,000: 0.02 s
#
# Exits with 0 while this holds, and with 1 if it has changed. Takes about 20 s.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.1

cat > "$directory/pings.py" <<'PYTHON'
import asyncio
import struct
import sys
import time

import grpc

PINGS, REST_S = 16_000, 0.3


def frame(kind: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, 0, 0) + payload


async def cost_s(*options: tuple[str, int]) -> float:
    """The processor time of this process, of which all but a hundredth is the server's."""
    server = grpc.aio.server(options=options)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4))
    await reader.read(100)
    flood, before = frame(6, bytes(8)) * PINGS, time.process_time()
    try:
        writer.write(flood)
        async with asyncio.timeout(2):
            while await reader.read(1 << 16):
                pass
    except (OSError, TimeoutError):
        pass
    spent = -1.0
    while time.process_time() - before > spent + 0.02:
        spent = time.process_time() - before
        await asyncio.sleep(REST_S)
    writer.transport.abort()
    await server.stop(0)
    return spent


async def main() -> int:
    default = await cost_s()
    without = await cost_s(("grpc.http2.max_ping_strikes", 0))
    print(f"grpcio {grpc.__version__}: {PINGS} PINGs cost {default:.2f} s by default, {without:.2f} s without a limit")
    return 0 if default > 4 * without + 0.05 else 1


sys.exit(asyncio.run(main()))
PYTHON
"$directory/venv/bin/python" "$directory/pings.py"
