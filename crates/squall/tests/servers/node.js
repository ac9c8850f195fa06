// A server of Node.js, over TLS, for `squall probe`: it reads each body to its end and responds with its size.
//
// Usage: node node.js PORT CERTIFICATE KEY. Every setting of HTTP/2 is Node's default.
'use strict';

const { readFileSync } = require('node:fs');
const http2 = require('node:http2');

const [port, cert, key] = process.argv.slice(2);
const options = { cert: readFileSync(cert), key: readFileSync(key) };
const server = http2.createSecureServer(options, (request, response) => {
  let size = 0;
  request.on('data', (chunk) => {
    size += chunk.length;
  });
  request.on('end', () => response.end(`${size}\n`));
});
server.listen(Number(port), '127.0.0.1');
