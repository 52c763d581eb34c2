"""Serves a folder as a program: byte ranges, and lists of names as S3 gives them. Prints its port.

python file_server.py FOLDER
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

FOLDER = Path(sys.argv[-1])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def send(self, code: int, body: bytes, size: int | None = None, **headers: str) -> None:
        self.send_response(code)
        for name, value in {
            "Content-Length": str(len(body) if size is None else size),
            **headers,
        }.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        path = FOLDER / unquote(urlsplit(self.path).path).strip("/")
        if path.is_file():
            self.send(200, b"", path.stat().st_size, Accept_Ranges="bytes", ETag='"1"')
        else:
            self.send(404, b"")

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        path = FOLDER / unquote(asked.path).strip("/")
        if path.is_dir():
            self.send(
                200,
                listed(path, parse_qs(asked.query).get("prefix", [""])[0]),
                Content_Type="application/xml",
            )
        elif path.is_file():
            whole = path.read_bytes()
            first, _, last = (
                self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            )
            body = whole[int(first) : int(last or len(whole)) + 1]
            ends = f"bytes {first}-{int(first) + len(body) - 1}/{len(whole)}"
            self.send(206, body, Content_Range=ends, Accept_Ranges="bytes", ETag='"1"')
        else:
            self.send(404, b"")


def listed(bucket: Path, prefix: str) -> bytes:
    names = sorted(str(x.relative_to(bucket)) for x in bucket.rglob("*.parquet"))
    entries = "".join(
        f"<Contents><Key>{escape(x)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>1</ETag>"
        f"<Size>{(bucket / x).stat().st_size}</Size></Contents>"
        for x in names
        if x.startswith(prefix)
    )
    return (
        f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode()
    )


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
