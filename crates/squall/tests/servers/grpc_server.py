"""A server of gRPC's C core, in cleartext, for `squall probe`: every method returns the message that it gets.

Usage: grpc_server.py PORT. Every setting of HTTP/2 is gRPC's default.
"""

import sys
from concurrent import futures

import grpc


class Echo(grpc.GenericRpcHandler):
    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
server.add_generic_rpc_handlers((Echo(),))
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
server.wait_for_termination()
