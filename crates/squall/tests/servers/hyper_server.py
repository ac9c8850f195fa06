"""A server of hyper, over HTTP/2 in cleartext, for `squall probe`: granian, which is built on it, reads each body to its end
and responds with its size.

Usage: hyper_server.py PORT. granian's windows and its number of streams are hyper's defaults.
"""

import asyncio
import sys

from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server


async def drain(scope, protocol):
    body = await protocol()
    protocol.response_str(200, [], f"{len(body)}\n")


server = Server(
    drain,
    port=int(sys.argv[1]),
    interface=Interfaces.RSGI,
    http=HTTPModes.http2,
    websockets=False,
)
asyncio.run(server.serve())
