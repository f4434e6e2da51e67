"""Prints a port of 127.0.0.1 for each one asked for: that one when it is free, else another.

usage: free_ports.py PORT...

The others lie below the range from which the kernel takes source ports, so that a broker that is
killed and started again finds its port free.
"""

import socket
import sys

STEP = 10
SOURCE_PORTS_START = 32768


def bind(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        listener.close()
        return None
    return listener


held = {}
for wanted in map(int, sys.argv[1:]):
    for port in range(wanted, SOURCE_PORTS_START, STEP):
        listener = None if port in held else bind(port)
        if listener:
            held[port] = listener
            print(port)
            break
    else:
        sys.exit(f"no free port at or above {wanted}")
