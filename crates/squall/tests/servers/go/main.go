// A server of Go's standard library, over TLS, for `squall probe`: it reads each body to its end and responds with its size.
//
// net/http speaks HTTP/2 by itself, with its defaults; nothing is set here. scripts/peers builds it as go-server, and
// e2e/alone/probe_servers_tls.rs starts it.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

func drain(response http.ResponseWriter, request *http.Request) {
	size, err := io.Copy(io.Discard, request.Body)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(response, "%d\n", size)
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: go-server PORT CERTIFICATE KEY")
	}
	address := "127.0.0.1:" + os.Args[1]
	log.Fatal(http.ListenAndServeTLS(address, os.Args[2], os.Args[3], http.HandlerFunc(drain)))
}
