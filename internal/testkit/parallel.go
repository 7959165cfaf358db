package testkit

import (
	"flag"
	"strconv"
)

// RunAtOnce lets up to n parallel tests of a package run at once, unless the flag -parallel has another number. It is for
// the TestMain of packages whose tests wait for servers and timers most of the time: Go runs as many as there are
// processors, which then have little to do.
func RunAtOnce(n int) error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(n))
}
