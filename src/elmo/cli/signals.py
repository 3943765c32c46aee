"""Ctrl-C and SIGTERM end a verb by an exception, so that all that is unfinished is removed.

Python ignores an exception within the callback of a weak reference or `__del__`, and with it the
signal. It reports such exceptions to `sys.unraisablehook`, so the signal is sent again there.
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
    ending: BaseException = SystemExit(TERMINATED)

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ending
        if number == signal.SIGINT:
            ending = KeyboardInterrupt()
        if not _is_handled(ending):
            raise ending

    def send_again(ignored: "sys.UnraisableHookArgs") -> None:
        if ignored.exc_value is ending:
            _set_timer(SECONDS_UNTIL_SENT_AGAIN)
        else:
            hook_before(ignored)

    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        numbers.append(signal.SIGINT)
    if hasattr(signal, "SIGALRM"):  # not on Windows
        numbers.append(signal.SIGALRM)
    before = {number: signal.signal(number, end) for number in numbers}
    hook_before, sys.unraisablehook = sys.unraisablehook, send_again
    try:
        yield
    finally:
        _set_timer(0.0)
        sys.unraisablehook = hook_before
        for number, handler in before.items():
            signal.signal(number, handler)


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
