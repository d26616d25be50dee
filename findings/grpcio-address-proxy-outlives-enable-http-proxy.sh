#!/usr/bin/env bash
# grpcio 1.85.1, client: grpc.enable_http_proxy=0 leaves one of gRPC's proxies on.
#
# The channel argument turns off what the environment says in http_proxy, https_proxy and grpc_proxy. A proxy in
# GRPC_ADDRESS_HTTP_PROXY, for addresses of GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES, is used all the same. What
# turns it off for one channel is an empty list of addresses as a channel argument of its own,
# grpc.address_http_proxy_enabled_addresses.
#
# Seen (a call to a server on 127.0.0.1; the proxy is a port at which nobody listens):
#   http_proxy: UNAVAILABLE; with grpc.enable_http_proxy=0: OK
#   GRPC_ADDRESS_HTTP_PROXY: UNAVAILABLE; with grpc.enable_http_proxy=0: UNAVAILABLE; with the empty list, too: OK
#
# Exits with 0 while this holds, and with 1 if it has changed.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check grpcio==1.85.1

cat > "$directory/call.py" <<'PYTHON'
import asyncio
import sys

import grpc

OFF = (("grpc.enable_http_proxy", 0),)
EMPTY_LIST = (("grpc.address_http_proxy_enabled_addresses", ""),)


async def answer(request: bytes, context: object) -> bytes:
    return request


async def ended(port: int, options: tuple[tuple[str, int | str], ...]) -> str:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        try:
            await channel.unary_unary("/a.Service/Method")(b"", timeout=30)
        except grpc.aio.AioRpcError as error:
            return error.code().name
    return "OK"


async def main() -> None:
    server = grpc.aio.server()
    handlers = {"Method": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.Service", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(*[await ended(port, options) for options in ((), OFF, OFF + EMPTY_LIST)])
    await server.stop(0)


sys.exit(asyncio.run(main()))
PYTHON

run() { env -u no_proxy -u no_grpc_proxy "$@" "$directory/venv/bin/python" "$directory/call.py"; }
by_name=$(run http_proxy=http://127.0.0.1:1)
by_address=$(run GRPC_ADDRESS_HTTP_PROXY=127.0.0.1:1 GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES=127.0.0.0/8)
echo "http_proxy: $by_name"
echo "GRPC_ADDRESS_HTTP_PROXY: $by_address"
[ "$by_name" = "UNAVAILABLE OK OK" ] && [ "$by_address" = "UNAVAILABLE UNAVAILABLE OK" ]
