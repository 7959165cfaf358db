package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

// The first arguments that make this program, or its test program, run as a program behind proxies, or as a bare proxy.
const (
	roleApp   = "bench-app"
	roleProxy = "bench-proxy"
)

// appBytes is the size of the page.
const appBytes = 2 << 10

func init() {
	if len(os.Args) < 3 {
		return
	}
	switch os.Args[1] {
	case roleApp:
		os.Exit(serveRole(os.Stdout, os.Args[2], http.HandlerFunc(servePage)))
	case roleProxy:
		target, err := url.Parse(os.Args[2])
		if err != nil {
			os.Exit(1)
		}
		proxy := httputil.NewSingleHostReverseProxy(target)
		proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
		os.Exit(serveRole(os.Stdout, "127.0.0.1:0", proxy))
	}
}

var page = bytes.Repeat([]byte("page "), appBytes)[:appBytes]

func servePage(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }

func serveRole(out io.Writer, address string, h http.Handler) int {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return 1
	}
	fmt.Fprintln(out, "http://"+l.Addr().String())
	_ = http.Serve(l, h)
	return 0
}

// freeAddress returns an address of loopback on which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
