"""A way to a unix socket over a port on loopback, that obeys `cut` and `mend` on its input and ends with it."""

from __future__ import annotations

import asyncio
import sys


class Cable:
    def __init__(self, socket: str) -> None:
        self._socket = socket
        self.whole = asyncio.Event()
        self.whole.set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.whole.wait()
        inner_reader, inner_writer = await asyncio.open_unix_connection(self._socket)
        try:
            await asyncio.gather(self._carry(reader, inner_writer), self._carry(inner_reader, writer))
        finally:
            writer.close()
            inner_writer.close()

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                await self.whole.wait()
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()


async def main(socket: str) -> None:
    cable = Cable(socket)
    server = await asyncio.start_server(cable.connected, "127.0.0.1", 0)
    say(str(server.sockets[0].getsockname()[1]))
    while word := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if word == "cut":
            cable.whole.clear()
        else:
            cable.whole.set()
        say(word)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
