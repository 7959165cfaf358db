package server

import "testing"

func TestBallastFitsTheMachine(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		env    map[string]string
		memory uint64
		want   uint64
	}{
		{nil, 24 << 30, maxBallast},
		{nil, 512 * mib, 32 * mib},
		{map[string]string{"GOGC": "100"}, 24 << 30, 0},
		{map[string]string{"GOMEMLIMIT": "1GiB"}, 24 << 30, 0},
	} {
		if got := ballast(func(name string) string { return c.env[name] }, c.memory); got != c.want {
			t.Errorf("%v, %d MiB: %d, want %d", c.env, c.memory/mib, got, c.want)
		}
	}
	if here := memoryLimit(); here < 64*mib || here > 1<<50 {
		t.Errorf("this machine has %d bytes", here)
	}
}
