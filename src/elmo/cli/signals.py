"""Ctrl-C and SIGTERM end a verb by an exception, so that all that is unfinished is removed.

Python ignores an exception within the callback of a weak reference or `__del__`, and with it the
signal. It reports such exceptions to `sys.unraisablehook`, so the signal is sent again there. A
library in C that calls Python, such as HDF5, may raise an error of its own instead.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143  # what a shell gives for Ctrl-C and SIGTERM
SECONDS_UNTIL_SENT_AGAIN = 0.001  # the callback should have ended by then


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise SystemExit at SIGTERM and KeyboardInterrupt at Ctrl-C, until the end of the context."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        numbers.append(signal.SIGINT)
    if hasattr(signal, "SIGALRM"):  # not on Windows
        numbers.append(signal.SIGALRM)
    handler = _Handler()
    before = {number: signal.signal(number, handler.end) for number in numbers}
    sys.unraisablehook = handler.send_again
    try:
        yield
    except Exception as error:
        if handler.is_ending:
            raise handler.ending from error
        raise
    finally:
        _set_timer(0.0)
        sys.unraisablehook = handler.hook_before
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


class _Handler:
    """What happens at a signal, and when its exception was ignored."""

    def __init__(self) -> None:
        self.ending: BaseException = SystemExit(TERMINATED)
        self.is_ending = False
        self.hook_before = sys.unraisablehook

    def end(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self.ending = KeyboardInterrupt()
        self.is_ending = True
        if not _is_handled(self.ending):
            raise self.ending

    def send_again(self, ignored: "sys.UnraisableHookArgs") -> None:
        if ignored.exc_value is self.ending:
            _set_timer(SECONDS_UNTIL_SENT_AGAIN)
        else:
            self.hook_before(ignored)


def _is_handled(ending: BaseException) -> bool:
    """Whether the code that runs now, such as a `finally`, runs because of this exception."""
    handled = sys.exception()
    while handled is not None and handled is not ending:
        handled = handled.__context__
    return handled is ending


def _set_timer(seconds: float) -> None:
    """Send SIGALRM after some seconds; never, if 0."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
