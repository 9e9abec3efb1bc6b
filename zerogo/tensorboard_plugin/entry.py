"""The plugin that TensorBoard loads: the tab, its routes, and the checks of requests.

The routes answer JSON, and {"error": "a sentence"} with a status of 400 or more for a refused request. Long work
answers with lines, each a JSON object, while it runs; closing the connection cancels it."""

import base64
import functools
import ipaddress
import json
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tensorboard.plugins import base_plugin
from werkzeug import Request, Response

from zerogo.errors import InputError
from zerogo.tensorboard_plugin.folder import Folder

PAGE = Path(__file__).with_name("page")
PAGE_FILES = {".js": "text/javascript", ".css": "text/css"}
MOST_BODY = 2**20 - 2**16  # bytes of a request
MOST_WAITING = 16  # requests that the process of jobs has at a time
ENDED = "the analysis process has ended; the next request starts it again"
LATE = "the answer was not read in time; ask again"
MOST_PLAYED = 1000  # games saved in one run
MOST_OPENED = 20_000  # games that openings are counted of
HEARTBEAT_SECONDS, REQUEST_SECONDS = 1.0, 300.0  # between heartbeats of a stream; limit of a request
HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
HEADERS |= {"Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "default-src 'none'"}


class RequestRefused(InputError):
    """A request that the server refuses. status: of HTTP."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class GoLoader(base_plugin.TBLoader):
    """Loads the tab, with its one option."""

    def define_flags(self, parser: Any) -> None:
        """Adds --go_hosts to TensorBoard's command line."""
        text = "further host names, separated by commas, under which browsers may open the Go tab"
        parser.add_argument_group("Go tab").add_argument("--go_hosts", metavar="NAMES", default="", help=text)

    def load(self, context: base_plugin.TBContext) -> base_plugin.TBPlugin:
        """Returns the tab."""
        return GoPlugin(context)


class GoPlugin(base_plugin.TBPlugin):
    """The tab: its routes over a log directory."""

    plugin_name = "go"

    def __init__(self, context: base_plugin.TBContext) -> None:
        self.folder = Folder(context.logdir) if context.logdir and "://" not in context.logdir else None
        named, host = (getattr(context.flags, name, None) or "" for name in ("go_hosts", "host"))
        names = [*named.split(","), host, socket.gethostname()]
        self._hosts = {"localhost", *(name.strip().lower() for name in names if name.strip())}
        self._jobs = JobProcess()
        self._written: set[str] = set()

    def is_active(self) -> bool:
        """Returns whether there is a log directory, in which games may appear at any time."""
        return self.folder is not None and self.folder.root.is_dir()

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Returns the tab's name and its page's module."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="Go", disable_reload=True)

    def get_plugin_apps(self) -> dict[str, Callable]:
        """Returns the routes: the page's files, and those that the page requests."""
        files = [path for path in PAGE.iterdir() if path.suffix in PAGE_FILES]
        pages = {path.name: (path.read_bytes(), 200, HEADERS, PAGE_FILES[path.suffix]) for path in files}
        apps = {f"/{name}": self._app(lambda _, page=page: Response(*page), "GET") for name, page in pages.items()}
        for answer in (self._runs, self._games, self._game, self._status, self._openings, self._in_flight):
            apps["/" + answer.__name__.removeprefix("_")] = self._app(answer, "GET")
        for names, answer in ((ONE, self._one), (STREAMS, self._stream)):
            apps |= {f"/{name}": self._app(functools.partial(answer, name), "POST") for name in names}
        return apps

    def _app(self, answer: Callable[[Request], Any], method: str) -> Callable:
        """Returns a WSGI application that answers requests of that method, and refuses others in one sentence."""

        @Request.application
        def _application(request: Request) -> Response:
            try:
                self._check(request, method)
                reply = answer(request)
                return reply if isinstance(reply, Response) else _json(reply)
            except InputError as error:
                return _json({"error": str(error)}, getattr(error, "status", 400))
            except OSError as error:  # a run that is being written or deleted
                return _json({"error": f"it can't be read now ({error.strerror or error})"}, 409)

        return _application

    def _check(self, request: Request, method: str) -> None:
        """Raises RequestRefused for a request of the wrong kind, and for one that a browser sends for another page.

        A browser marks a request that a page of another origin makes. A page whose host name was pointed at this
        machine's address (DNS rebinding) sends that name as Host."""
        if request.method != method:
            raise RequestRefused(405, f"the method is {request.method}; allowed here is {method}")
        if not self._is_own(request.headers.get("Host", "")):
            addressed = f"the server is addressed as {request.headers.get('Host', '')[:80]!r}"
            raise RequestRefused(403, f"{addressed}; allowed are its address, localhost and the names of --go_hosts")
        origin = request.headers.get("Origin")
        site = request.headers.get("Sec-Fetch-Site")  # behind a proxy, Host may differ from Origin
        is_own = site == "same-origin" or origin is None or origin.partition("://")[2] == request.headers.get("Host")
        if site not in (None, "same-origin", "none") or not is_own:
            raise RequestRefused(403, "the request comes from another page; allowed are those of this TensorBoard")
        if method == "POST":
            if request.mimetype != "application/json":
                raise RequestRefused(415, "the body must be application/json")
            if request.content_length is None:
                raise RequestRefused(411, f"the request lacks Content-Length, which may be {MOST_BODY} bytes at most")
            if request.content_length > MOST_BODY:
                raise RequestRefused(413, f"the body has {request.content_length} bytes; allowed are {MOST_BODY}")
        if self.folder is None:
            raise RequestRefused(404, "TensorBoard was started without a local --logdir, so there is nothing to show")

    def _is_own(self, address: str) -> bool:
        """Returns whether an address such as localhost:6006 names this server, and no one can point it elsewhere."""
        with suppress(ValueError):
            host = urlsplit(f"//{address}").hostname or ""
            return host in self._hosts or host.endswith(".localhost") or bool(ipaddress.ip_address(host))
        return False

    # What is read

    def _runs(self, request: Request) -> dict[str, Any]:
        if request.args.get("first"):
            self._jobs.start()  # it takes seconds, in which a person looks at the list
        runs = [run._asdict() for run in self.folder.runs()]
        return {"runs": [run | {"path": "", "sources": [kind for kind, _ in run["sources"]]} for run in runs]}

    def _games(self, request: Request) -> dict[str, Any]:
        names = ("run", "kind", "player", "result", "end", "least", "most")
        filters = {name: request.args[name][:200] for name in names if request.args.get(name)}
        return self.folder.games(filters, request.args.get("after", ""))

    def _game(self, request: Request) -> dict[str, Any]:
        name = request.args.get("path", "")
        data = base64.b64encode(self.folder.read(name)).decode()
        return self._jobs.one("read_game", {"data": data, "name": Path(name).name})

    def _status(self, request: Request) -> dict[str, Any]:
        run = self.folder.run(request.args.get("run"))
        files = {"metrics": "logs/metrics.jsonl", "pool": "matches.jsonl"}
        return self._jobs.one("status", {name: self.folder.file(run, file) for name, file in files.items()})

    def _openings(self, request: Request) -> dict[str, Any]:
        run, size = self.folder.run(request.args.get("run")), request.args.get("size", type=int)
        games: dict[int, list] = {}
        for _, folder in run.sources:
            for changed, name, length in self.folder.listing(folder)[:MOST_OPENED]:
                if summary := self.folder.summary(folder / name, changed, length):
                    games.setdefault(summary.size, []).append((summary.opening, summary.result[:1]))
        chosen = size if size in games else max(games, key=lambda one: len(games[one]), default=9)
        tree = self._jobs.one("openings", {"size": chosen, "games": games.get(chosen, [])[:MOST_OPENED]})
        return tree | {"sizes": sorted(games)}

    def _in_flight(self, request: Request) -> dict[str, Any]:
        run = self.folder.run(request.args.get("run"))
        names = sorted(path.name for path in (run.path / "snapshots").glob("snapshot-*.pt") if path.is_file())
        path = self.folder.file(run, f"snapshots/{names[-1]}") if names else None
        if path is None:
            raise InputError(f"the run {run.name} has no snapshot, so no games under way are known")
        return self._jobs.one("in_flight", {"path": path})

    # Requests with a body

    def _body(self, request: Request, pruned: bool = False) -> dict[str, Any]:
        """Returns a request's object, with files in place of the names of networks. Raises InputError for another body
        and for a name that is no network. pruned: allow the names of files that are gone."""
        body = None
        with suppress(ValueError, RecursionError):
            body = json.loads(request.get_data(cache=False))
        if not isinstance(body, dict):
            raise InputError("the body must be one JSON object")
        names = body.setdefault("networks", [])
        if not isinstance(names, list) or len(names) > 100:
            raise InputError("networks must be a list of at most 100 names")
        return body | {"networks": [str(self.folder.network(name, pruned)) for name in names]}

    def _one(self, name: str, request: Request) -> dict[str, Any]:
        body = self._body(request)
        if name == "save":
            body["path"] = str(self._file_for(body))
        answer = self._jobs.one(ONE[name], body | {"data": body.pop("sgf", None), "name": "loaded game"})
        self._written |= {body["path"]} if name == "save" else set()
        return answer

    def _file_for(self, body: dict[str, Any]) -> Path:
        """Returns a new file for a played game, or one that this server has made. Raises InputError for any other."""
        folder = self.folder.run(body.get("run")).path / "played"
        if folder.is_symlink() or not folder.resolve().is_relative_to(self.folder.root):
            raise InputError("the folder for played games is a link, and nothing is written through links")
        if name := body.get("file"):
            if f"{folder}/{name}" not in self._written:
                raise InputError("file is none that this server has written; leave it out for a new one")
            return folder / name
        if folder.is_dir() and sum(1 for _ in folder.iterdir()) >= MOST_PLAYED:
            raise InputError(f"{MOST_PLAYED} games are saved in this run already; remove some of its folder played")
        return folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}.sgf"

    def _stream(self, name: str, request: Request) -> Response:
        body = self._body(request, pruned=name == "over_time")
        if not body["networks"]:
            raise InputError("networks is empty; name one that the tab lists")
        answers = self._jobs.ask(STREAMS[name], body, str(body.pop("client", ""))[:40])
        return Response(_lines(answers), mimetype="application/x-ndjson", headers=HEADERS)


ONE = {"load": "read_game", "new": "new_game", "move": "play_move", "text": "write_text", "save": "save_game"}
STREAMS = {name: name for name in ("think", "over_time", "curve", "planes", "score")} | {"genmove": "choose_move"}


def _lines(answers: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yields a stream's lines; an error is the last one."""
    try:
        for answer in answers:
            yield json.dumps(answer).encode() + b"\n"
    except InputError as error:
        yield json.dumps({"error": str(error)}).encode() + b"\n"


def _json(fields: Any, status: int = 200) -> Response:
    return Response(json.dumps(fields), status, HEADERS, "application/json")


class JobProcess:
    """The process of jobs.py, which the server starts at the first request, and again after it has ended. Each request
    has a connection of its own to it, and is cancelled by closing that."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._control: socket.socket | None = None  # passes the connection of each request to the process
        self._lock, self._room = threading.Lock(), threading.Semaphore(MOST_WAITING)

    def start(self) -> None:
        """Starts the process if there is none."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._control, theirs = socket.socketpair()
                # With -P, and not by multiprocessing, which would import modules from the folder it is started in.
                words = [sys.executable, "-P", "-m", "zerogo.tensorboard_plugin.jobs", str(theirs.fileno())]
                self._process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True
                )
                theirs.close()

    def one(self, job: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Returns the only part of a job's answer. Raises InputError with the job's error."""
        return next(part for part in self.ask(job, fields) if part)

    def ask(self, job: str, fields: dict[str, Any], client: str = "") -> Iterator[dict[str, Any]]:
        """Yields the parts of a job's answer, and {} after each second without one. client: whose earlier request is
        cancelled, empty for none. Raises InputError with the job's error, RequestRefused where too many wait."""
        self.start()
        process, (ours, theirs), until = self._process, Pipe(), time.monotonic() + REQUEST_SECONDS
        if not self._room.acquire(blocking=False):
            raise RequestRefused(503, f"{MOST_WAITING} requests are waiting already; try again later")
        try:
            with ours, theirs:  # macOS may lose an end of a connection that is closed before it has arrived
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
                ours.send_bytes(json.dumps({"job": job, "fields": fields, "client": client}).encode())
                while time.monotonic() < until:
                    answer = {"part": {}}
                    if ours.poll(HEARTBEAT_SECONDS):
                        theirs.close()
                        answer = json.loads(ours.recv_bytes())
                    elif process.poll() is not None:
                        raise EOFError
                    if "error" in answer:
                        raise InputError(answer["error"])
                    if "part" not in answer:
                        return
                    yield answer["part"]
                raise InputError(f"no answer within {REQUEST_SECONDS:g} s; ask for less, or try again later")
        except (EOFError, OSError):
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)  # it closes its connections a little before it has ended
            raise InputError(LATE if process.poll() is None else ENDED) from None
        finally:
            self._room.release()
