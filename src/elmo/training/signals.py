"""Handle Ctrl-C and SIGTERM as requests to stop, which a loop checks between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def catch_signals() -> Iterator[threading.Event]:
    """Set an event on Ctrl-C or SIGTERM; a second signal has its usual effect."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may set signal handlers
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request_stop(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, request_stop)
    try:
        yield stop
    finally:
        for number, action in before.items():
            signal.signal(number, action)
