"""Requests over HTTP/3 only, in parallel over one connection: URL METHOD FILE TIMES SECONDS [--body FILE] [--header FIELD]...

Writes the body of answer N to FILE.N, its head to FILE.head.N, and prints one line for each: status and version.
"""

import argparse
import sys

import pycurl

HTTP_VERSION_3ONLY = 31  # CURL_HTTP_VERSION_3ONLY (curl.h); pycurl has no name for it.

parser = argparse.ArgumentParser()
for name in ["url", "method", "file", "times", "seconds"]:
    parser.add_argument(name)
parser.add_argument("--body")
parser.add_argument("--header", action="append", default=[])
asked = parser.parse_args()
multi = pycurl.CurlMulti()
multi.setopt(pycurl.M_PIPELINING, 2)  # CURLPIPE_MULTIPLEX
multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, 1)
requests = []
for number in range(int(asked.times)):
    request = pycurl.Curl()
    request.setopt(pycurl.URL, asked.url)
    request.setopt(pycurl.HTTP_VERSION, HTTP_VERSION_3ONLY)
    request.setopt(pycurl.SSL_VERIFYPEER, 0)
    request.setopt(pycurl.SSL_VERIFYHOST, 0)
    request.setopt(pycurl.NOPROXY, "*")
    request.setopt(pycurl.PIPEWAIT, 1)
    request.setopt(pycurl.TIMEOUT, int(asked.seconds))
    request.setopt(pycurl.PATH_AS_IS, 1)
    request.setopt(pycurl.HTTPHEADER, asked.header)
    if asked.body:
        with open(asked.body, "rb") as sent:
            request.setopt(pycurl.POSTFIELDS, sent.read())
    if asked.method == "HEAD":
        request.setopt(pycurl.NOBODY, 1)
    else:
        request.setopt(pycurl.CUSTOMREQUEST, asked.method)
    received = open(f"{asked.file}.{number}", "wb")
    request.setopt(pycurl.WRITEDATA, received)
    head = open(f"{asked.file}.head.{number}", "wb")
    request.setopt(pycurl.WRITEHEADER, head)
    multi.add_handle(request)
    requests.append((request, received, head))

running = len(requests)
while running:
    _, running = multi.perform()
    # As curl wants it: its HTTP/3 paces by timers, which a wait for the socket alone would miss.
    wait = multi.timeout()
    multi.select(1.0 if wait < 0 else min(wait / 1000, 1.0))
_, _, failed = multi.info_read(len(requests))
for _, code, message in failed:
    sys.exit(f"{code} {message}")
for request, received, head in requests:
    received.close()
    head.close()
    version = {30: "3"}.get(request.getinfo(pycurl.INFO_HTTP_VERSION), "?")
    print(request.getinfo(pycurl.RESPONSE_CODE), version)
