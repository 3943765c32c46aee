"""Ctrl-C and SIGTERM end a verb with an exception, so that unfinished files are removed.

Python ignores an exception raised in a weak reference callback or in `__del__`, so the signal would
be lost. It reports such exceptions to `sys.unraisablehook`, which sends a signal again. A C library
that calls Python, such as HDF5, may raise its own error instead; it is converted back.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143  # exit codes of a shell for Ctrl-C and SIGTERM
SECONDS_UNTIL_SENT_AGAIN = 0.001  # the callback should have returned by then


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM and KeyboardInterrupt on Ctrl-C, within the context."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise it is ignored
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
    """Raises the exception of a signal, and sends a signal again if Python ignored it."""

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
    """Whether this exception is being handled already, for example in a `finally` block."""
    handled = sys.exception()
    while handled is not None and handled is not ending:
        handled = handled.__context__
    return handled is ending


def _set_timer(seconds: float) -> None:
    """Send SIGALRM after `seconds`; 0 cancels the timer."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
