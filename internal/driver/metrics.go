package driver

import (
	"context"
	"iter"
	"time"
)

// WithMetrics calls observe at the end of every call of d, with the driver's kind, the operation, the
// outcome from Classify and the duration. The duration of a List does not include the time that the
// caller spends on its entries. observe must be safe for concurrent use.
func WithMetrics(d Driver, observe func(kind, op, outcome string, took time.Duration)) Driver {
	return &decorated{base: d, policy: metrics{kind: d.Kind(), observe: observe}}
}

type metrics struct {
	kind    string
	observe func(kind, op, outcome string, took time.Duration)
}

func (m metrics) call(_ context.Context, op string, fn func() error) error {
	start := time.Now()
	err := fn()
	m.observe(m.kind, op, Classify(err), time.Since(start))
	return err
}

func (m metrics) list(_ context.Context, open func() iter.Seq2[Status, error]) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		var failure error
		var away time.Duration
		start := time.Now()
		defer func() {
			m.observe(m.kind, OpList, Classify(failure), time.Since(start)-away)
		}()
		for st, err := range open() {
			failure = err
			out := time.Now()
			more := yield(st, err)
			away += time.Since(out)
			if !more {
				return
			}
		}
	}
}
