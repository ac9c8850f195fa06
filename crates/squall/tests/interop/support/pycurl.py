"""Requests over HTTP/3 only, in parallel over one connection: URL METHOD FILE TIMES SECONDS [BODY].

Writes the body of answer N to FILE.N and prints one line for each: status and version.
"""

import sys

import pycurl

HTTP_VERSION_3ONLY = 31  # CURL_HTTP_VERSION_3ONLY (curl.h); pycurl has no name for it.

url, method, file, times, seconds, *body = sys.argv[1:]
multi = pycurl.CurlMulti()
multi.setopt(pycurl.M_PIPELINING, 2)  # CURLPIPE_MULTIPLEX
multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, 1)
requests = []
for number in range(int(times)):
    request = pycurl.Curl()
    request.setopt(pycurl.URL, url)
    request.setopt(pycurl.HTTP_VERSION, HTTP_VERSION_3ONLY)
    request.setopt(pycurl.SSL_VERIFYPEER, 0)
    request.setopt(pycurl.SSL_VERIFYHOST, 0)
    request.setopt(pycurl.NOPROXY, "*")
    request.setopt(pycurl.PIPEWAIT, 1)
    request.setopt(pycurl.TIMEOUT, int(seconds))
    if body:
        with open(body[0], "rb") as sent:
            request.setopt(pycurl.POSTFIELDS, sent.read())
    request.setopt(pycurl.CUSTOMREQUEST, method)
    received = open(f"{file}.{number}", "wb")
    request.setopt(pycurl.WRITEDATA, received)
    multi.add_handle(request)
    requests.append((request, received))

running = len(requests)
while running:
    _, running = multi.perform()
    # As curl wants it: its HTTP/3 paces by timers, which a wait for the socket alone would miss.
    wait = multi.timeout()
    multi.select(1.0 if wait < 0 else min(wait / 1000, 1.0))
_, _, failed = multi.info_read(len(requests))
for _, code, message in failed:
    sys.exit(f"{code} {message}")
for request, received in requests:
    received.close()
    version = {30: "3"}.get(request.getinfo(pycurl.INFO_HTTP_VERSION), "?")
    print(request.getinfo(pycurl.RESPONSE_CODE), version)
