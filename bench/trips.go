package main

import (
	"cmp"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"
)

// trips is a proxy in front of a server. It delays requests and records when each began and ended.
type trips struct {
	endpoint string
	server   *http.Server
	onward   *http.Transport

	mu    sync.Mutex
	delay time.Duration
	all   []trip
}

// trip holds the times of one request and of the end of its answer.
type trip struct{ began, ended time.Time }

// tripCounts holds the number of recorded requests, and the length of the longest chain of requests one after another.
type tripCounts struct{ requests, chain int }

func openTrips(endpoint string) (*trips, error) {
	to, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &trips{endpoint: "http://" + l.Addr().String(), onward: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}}
	proxy := &httputil.ReverseProxy{
		Transport: p.onward,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // the request's signature covers the host
		},
	}
	p.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		time.Sleep(p.wait())
		proxy.ServeHTTP(w, r)
		p.note(trip{began, time.Now()})
	})}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

func (p *trips) close() {
	_ = p.server.Close()
	p.onward.CloseIdleConnections()
}

func (p *trips) wait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

func (p *trips) note(t trip) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, t)
}

// slow sets the delay of each request.
func (p *trips) slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

func (p *trips) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = nil
}

func (p *trips) taken() tripCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return tripCounts{len(p.all), chain(p.all)}
}

// chain returns the length of the longest sequence of trips in which each began after the previous one had ended.
func chain(all []trip) (n int) {
	all = slices.SortedFunc(slices.Values(all), func(a, b trip) int { return cmp.Compare(a.ended.UnixNano(), b.ended.UnixNano()) })
	var last time.Time
	for _, t := range all {
		if !t.began.Before(last) {
			n, last = n+1, t.ended
		}
	}
	return n
}
