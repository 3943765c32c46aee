"""The page's files, read once: a request names one of them and never a path."""

from importlib.resources import files

from starlette.responses import Response

from elmo.serve.guard import Refusal

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Page:
    """The files of the `static` folder in memory."""

    def __init__(self) -> None:
        folder = files("elmo.serve") / "static"
        self._files = {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}

    def answer(self, name: str) -> Response:
        """One of the files."""
        content = self._files.get(name)
        if content is None:
            raise Refusal(404, "no such file")
        ending = name[name.rfind(".") :]
        headers = {"Cache-Control": "no-cache"}
        return Response(content, media_type=MEDIA_TYPES[ending], headers=headers)
