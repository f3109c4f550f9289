"""Starts `ringkeep serve` and talks to it, politely and otherwise."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.parse

from ringkeep_cli import BINARY


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body.decode("utf-8"))  # strict: no bad UTF-8 in any answer

    @property
    def error(self):
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        return error


class Server:
    """A running server. As a context manager it is stopped at the end, with SIGTERM."""

    def __init__(self, model, *flags, fault=None, key=None, env=None, ready=True, log=None):
        environment = {**os.environ, **(env or {})}
        environment.pop("RINGKEEP_API_KEY", None)
        if env:
            environment.update(env)
        if fault:
            environment["RINGKEEP_TEST_FAULT"] = fault
        self.key = key
        self.log_path = log
        self.log = open(log, "wb") if log else subprocess.DEVNULL
        self.process = subprocess.Popen(
            [BINARY, "serve", str(model), "--port", "0", "--json", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=self.log, env=environment)
        line = self.process.stdout.readline()
        assert line, f"the server did not start: exit {self.process.wait()}"
        self.port = json.loads(line)["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        if ready:
            self.wait_ready()

    def wait_ready(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, f"exit {self.process.returncode} while loading"
            if self.get("/health").status == 200:
                return
            time.sleep(0.02)
        raise AssertionError("not ready in time")

    def request(self, method, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            headers = dict(headers or {})
            if self.key and "Authorization" not in headers:
                headers["Authorization"] = f"Bearer {self.key}"
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            if body is not None:
                headers.setdefault("Content-Type", "application/json")
            if isinstance(body, str):
                body = body.encode()
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.request("POST", path, body, **options)

    def complete(self, prompt, **fields):
        reply = self.post("/v1/completions", {"prompt": prompt, "temperature": 0, **fields})
        assert reply.status == 200, reply.body
        return reply.json

    def chat(self, *messages, **fields):
        reply = self.post("/v1/chat/completions",
                          {"messages": list(messages), "temperature": 0, **fields})
        assert reply.status == 200, reply.body
        return reply.json

    def stream(self, path, body, **options):
        """The events of a stream, [DONE] checked and left out."""
        reply = self.post(path, {**body, "stream": True}, **options)
        assert reply.status == 200, reply.body
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        events = [line[len("data: "):] for line in reply.body.decode("utf-8").split("\n\n") if line]
        assert events[-1] == "[DONE]"
        return [json.loads(event) for event in events[:-1]]

    def refused(self, path, body, param=None, status=400):
        """An error of that status naming that field."""
        reply = self.post(path, body)
        assert reply.status == status, (reply.status, reply.body, body)
        error = reply.error
        if param is not None:
            assert error["param"] == param, error
            assert param in error["message"], error
        return error

    def kv(self):
        return self.get("/kv").json

    def metrics(self):
        """{name{labels}: value}."""
        text = self.get("/metrics").body.decode()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                for line in text.splitlines() if line and not line.startswith("#")}

    def connect(self, receive_buffer=None):
        connection = socket.socket()
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(30)
        connection.connect(("127.0.0.1", self.port))
        return connection

    def raw(self, data, seconds=30):
        """What comes back for raw bytes until the server closes or falls silent."""
        with contextlib.closing(self.connect()) as connection:
            connection.settimeout(seconds)
            connection.sendall(data)
            return read_all(connection)

    def raw_reply(self, data):
        """The answer to raw bytes, whether the server keeps the connection or not."""
        with contextlib.closing(self.connect()) as connection:
            connection.sendall(data)
            return read_reply(connection)

    def raw_post(self, path, body, more=""):
        body = json.dumps(body).encode()
        return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{more}"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def wait_for(self, condition, seconds=10, what="condition"):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.02)
        raise AssertionError(f"{what} not met in {seconds} s")

    def wait_idle(self, seconds=10):
        self.wait_for(lambda: not self.kv()["sequences"], seconds, "idle")

    def stop(self, seconds=20):
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.end(seconds)

    def end(self, seconds=20):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.process.stdout.close()
            if self.log_path:
                self.log.close()

    def log_text(self):
        return pathlib.Path(self.log_path).read_text()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.stop()


def read_all(connection):
    data = b""
    with contextlib.suppress(TimeoutError, ConnectionResetError):
        while part := connection.recv(65536):
            data += part
    return data


def read_reply(connection):
    """The first Reply of a connection, which may stay open behind it."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            data += part
            if b"\r\n\r\n" in data:
                reply, _ = parse_response(data)
                if len(reply.body) == int(reply.headers["Content-Length"]):
                    break
    return parse_response(data)[0]


def parse_response(data):
    """(Reply, rest) of the first response in raw bytes."""
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = http.client.HTTPMessage()
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        headers[name] = value
    size = int(headers["Content-Length"] or 0)
    return Reply(int(lines[0].split()[1]), headers, rest[:size]), rest[size:]


def origin(url):
    return urllib.parse.urlsplit(url).netloc
