package testkit

import (
	"fmt"
	"testing"
)

// recorder stands in for a test whose failure is the expected result. Fatalf panics with the
// recorder so that the code under test stops as it would in a real test.
type recorder struct {
	testing.TB
	failures []string
	attrs    []string
}

func (r *recorder) Helper() {}

func (r *recorder) Attr(key, value string) { r.attrs = append(r.attrs, key+"="+value) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// record runs f the way the testing package would and returns what it reported.
func record(f func(t testing.TB)) (r *recorder) {
	r = &recorder{}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
	}()
	f(r)
	return r
}
