"""A slow link: packets that are routed into a device of this process leave it late, in another order, or never.

    ip netns exec NAMESPACE python -m tests.e2e.slow_link DEVICE --delay-ms 100 --jitter-ms 50 --loss 0.05 --mbit 3

What tc's netem does, for kernels that were built without it. Each pair of addresses has a line of its own: a packet
waits until the line is free, then for as long as it takes at this rate, then for the delay.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import random
import signal
import struct
from collections import defaultdict

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
"""linux/if_tun.h: packets of IP, with nothing before them."""
PACKET_BYTES_MAX = 65_536
BACKLOG_S = 2.0
"""A packet that would wait longer for its line is lost, as in a router whose queue is full."""


def open_device(name: str) -> int:
    """The file of a new TUN device in this namespace."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return file


class SlowLink:
    """Takes packets from a device and gives them back to it."""

    def __init__(
        self, file: int, *, delay_s: float, jitter_s: float, loss: float, bits_per_s: float, seed: int
    ) -> None:
        self._file = file
        self._delay_s = delay_s
        self._jitter_s = jitter_s
        self._loss = loss
        self._bits_per_s = bits_per_s
        self._chance = random.Random(seed)
        self._free_at_s: defaultdict[bytes, float] = defaultdict(float)

    def take(self) -> None:
        """Everything that has arrived."""
        while True:
            try:
                packet = os.read(self._file, PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            if packet[0] >> 4 == 4 and self._chance.random() >= self._loss:
                self._send_late(packet)

    def _send_late(self, packet: bytes) -> None:
        loop = asyncio.get_running_loop()
        line = packet[12:20]  # source and destination, RFC 791
        begins_s = max(loop.time(), self._free_at_s[line])
        if begins_s - loop.time() > BACKLOG_S:
            return
        self._free_at_s[line] = begins_s + len(packet) * 8 / self._bits_per_s
        delay_s = self._delay_s + self._chance.uniform(-self._jitter_s, self._jitter_s)
        loop.call_at(self._free_at_s[line] + delay_s, os.write, self._file, packet)


async def main() -> None:
    """Until asked to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device")
    parser.add_argument("--delay-ms", type=float, required=True)
    parser.add_argument("--jitter-ms", type=float, required=True)
    parser.add_argument("--loss", type=float, required=True, help="share of packets, 0 to 1")
    parser.add_argument("--mbit", type=float, required=True, help="per second, for each pair of addresses")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    file = open_device(arguments.device)
    link = SlowLink(
        file,
        delay_s=arguments.delay_ms / 1000,
        jitter_s=arguments.jitter_ms / 1000,
        loss=arguments.loss,
        bits_per_s=arguments.mbit * 1e6,
        seed=arguments.seed,
    )
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    loop.add_reader(file, link.take)
    print("ready", flush=True)
    await asked.wait()


if __name__ == "__main__":
    asyncio.run(main())
