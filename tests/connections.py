"""Many clients of one kind at one broker, while an ordinary client goes on, and what the broker takes meanwhile.

usage: connections.py KIND HOST:PORT BROKER_PID SECONDS PEAK_MIB_MAX

kinds: offer   200 connections offer as much as they can
       idle    10,000 connections ask once and stay
       slow    1,000 readers ask for megabytes and take them at a trickle; each comes back when it is closed

Exits 1 when the ordinary client fails once, or the broker takes more memory than PEAK_MIB_MAX.
"""

import asyncio
import os
import socket
import struct
import sys
import time

from wire import Client, batch, fetch_body, frame, produce_body, record

MIB = 1 << 20
OFFERERS, PIPELINED = 200, 4
IDLERS = 10_000
READERS, TRICKLE_BYTES = 1_000, 2_048
READ_BATCHES = 128
TOPICS = {name: f"{name}-{os.getpid()}" for name in ("load", "ordinary")}


def megabyte():
    return batch([record(0, os.urandom(MIB - 200))])


class Broker:
    """What the operating system says of a process."""

    def __init__(self, pid):
        self.pid = pid

    def status(self, key):
        with open(f"/proc/{self.pid}/status") as lines:
            return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(key + ":"))

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def forget_peak(self):
        with open(f"/proc/{self.pid}/clear_refs", "w") as refs:
            refs.write("5")


class Ordinary:
    """Produces a small batch and fetches it back, over and over."""

    def __init__(self, address):
        self.client, self.offset = Client(address), 0
        self.produced, self.fetched = [], []

    def turn(self):
        began = time.monotonic()
        code = self.client.produce(TOPICS["ordinary"], batch([record(0)]))
        if code:
            raise RuntimeError(f"produce: error {code}")
        acked = time.monotonic()
        while True:
            answer = self.client.call(1, 4, fetch_body(TOPICS["ordinary"], self.offset, MIB, 500))
            name = len(TOPICS["ordinary"])
            code, records = struct.unpack_from(">h", answer, 18 + name)[0], struct.unpack_from(">i", answer, 40 + name)[0]
            if code:
                raise RuntimeError(f"fetch: error {code}")
            if records > 0:
                break
        self.offset += 1
        self.produced.append(acked - began)
        self.fetched.append(time.monotonic() - acked)

    def run(self, until):
        while not until.is_set():
            self.turn()
            time.sleep(0.1)

    def line(self):
        def of(times):
            times = sorted(times)
            return f"p50 {times[len(times) // 2] * 1000:.0f} ms, worst {times[-1] * 1000:.0f} ms"

        return f"{len(self.produced)} turns; produce {of(self.produced)}; fetch {of(self.fetched)}"


async def offer(host, port, ends, counts):
    request = frame(0, 8, produce_body(TOPICS["load"], megabyte()))

    async def one():
        reader, writer = await asyncio.open_connection(host, port)
        in_flight = 0
        while time.monotonic() < ends:
            while in_flight < PIPELINED:
                writer.write(request)
                in_flight += 1
            answer = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
            in_flight -= 1
            code = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(TOPICS["load"]) + 8)[0]
            counts[f"answered {code}"] = counts.get(f"answered {code}", 0) + 1
        writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(OFFERERS)))


async def idle(host, port, ends, counts):
    request = frame(18, 0, b"")
    writers = []

    async def one():
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request)
        await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
        writers.append(writer)

    for start in range(0, IDLERS, 200):
        await asyncio.gather(*(one() for _ in range(min(200, IDLERS - start))))
    counts["open"] = len(writers)
    await asyncio.sleep(max(0, ends - time.monotonic()))
    for writer in writers:
        writer.transport.abort()


async def slow(host, port, ends, counts):
    loop = asyncio.get_running_loop()

    async def one(number):
        turn = number
        while time.monotonic() < ends:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, (host, port))
                await loop.sock_sendall(sock, frame(1, 4, fetch_body(TOPICS["load"], turn % READ_BATCHES, 8 * MIB, 500)))
                while time.monotonic() < ends:
                    piece = await loop.sock_recv(sock, TRICKLE_BYTES)
                    if not piece:
                        break
                    counts["bytes taken"] = counts.get("bytes taken", 0) + len(piece)
                    await asyncio.sleep(1)
            except OSError:
                pass
            finally:
                sock.close()
            counts["closed by the broker"] = counts.get("closed by the broker", 0) + (time.monotonic() < ends)
            turn += 37
            await asyncio.sleep(0.5)

    readers = [asyncio.create_task(one(number)) for number in range(READERS)]
    await asyncio.sleep(max(0, ends - time.monotonic()))
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)


def prepare(kind, address):
    client = Client(address)
    for topic in TOPICS.values():
        code = client.create(topic, [("max.message.bytes", str(2 * MIB))])
        if code:
            sys.exit(f"creating {topic}: error {code}")
        while client.produce(topic, batch([record(0)])) == 3:
            time.sleep(0.1)
    if kind == "slow":
        records = megabyte()
        for _ in range(READ_BATCHES):
            code = client.produce(TOPICS["load"], records)
            if code:
                sys.exit(f"filling: error {code}")


async def main(kind, address, pid, seconds, peak_mib_max):
    host, port = address.rsplit(":", 1)
    broker, counts, until = Broker(int(pid)), {}, asyncio.Event()
    prepare(kind, address)
    ordinary = Ordinary(address)
    ordinary.offset = 1
    broker.forget_peak()
    before, cpu, began = broker.status("VmRSS"), broker.cpu_seconds(), time.monotonic()
    ends = began + float(seconds)
    turns = asyncio.get_running_loop().run_in_executor(None, ordinary.run, until)
    await {"offer": offer, "idle": idle, "slow": slow}[kind](host, int(port), ends, counts)
    during, peak, elapsed = broker.status("VmRSS"), broker.status("VmHWM"), time.monotonic() - began
    cpu = broker.cpu_seconds() - cpu
    until.set()
    await turns
    await asyncio.sleep(5)
    print(f"{kind}: {', '.join(f'{count} {what}' for what, count in sorted(counts.items()))} in {elapsed:.0f} s")
    print(f"  broker: {before} MiB before, {during} at the end, peak {peak}, {broker.status('VmRSS')} five seconds after")
    print(f"  broker: {cpu:.1f} CPU-seconds, {100 * cpu / elapsed:.0f} % of a core")
    print(f"  an ordinary client: {ordinary.line()}", flush=True)
    if peak > int(peak_mib_max):
        sys.exit(f"{kind}: the broker took {peak} MiB, more than {peak_mib_max}")


asyncio.run(main(*sys.argv[1:]))
