package egress

import "time"

// Limits bound the connections, memory and time that one sandbox can use in the server. Zero fields mean the default.
type Limits struct {
	Conns         int           // connections served at once, per listener
	HeaderBytes   int           // maximum size of the head of a request, and of a response
	HeaderTimeout time.Duration // maximum time for the head of a request to arrive
	DialTimeout   time.Duration // maximum time to resolve a name and connect
	Idle          time.Duration // maximum time without a byte in either direction
}

// DefaultLimits are enough for package managers with many connections and for models that answer after minutes.
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
