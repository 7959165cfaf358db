package egress

import "time"

// Limits bound what a sandbox can make the server hold for it. Zero fields mean the default.
type Limits struct {
	Conns         int           // connections served at once, per listener
	HeaderBytes   int           // size of a request's head, and of a response's
	HeaderTimeout time.Duration // for a request's head to arrive
	DialTimeout   time.Duration // to resolve a name and connect
	Idle          time.Duration // without a byte in either direction
}

// DefaultLimits leave room for a package manager at work and a model that thinks for long.
var DefaultLimits = Limits{
	Conns:         512,
	HeaderBytes:   64 << 10,
	HeaderTimeout: 15 * time.Second,
	DialTimeout:   30 * time.Second,
	Idle:          15 * time.Minute,
}

func (l Limits) orDefault() Limits {
	return Limits{
		Conns:         orElse(l.Conns, DefaultLimits.Conns),
		HeaderBytes:   orElse(l.HeaderBytes, DefaultLimits.HeaderBytes),
		HeaderTimeout: orElse(l.HeaderTimeout, DefaultLimits.HeaderTimeout),
		DialTimeout:   orElse(l.DialTimeout, DefaultLimits.DialTimeout),
		Idle:          orElse(l.Idle, DefaultLimits.Idle),
	}
}

func orElse[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
