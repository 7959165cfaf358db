package chat

import (
	"math"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
)

func TestFiguresOfAnAgentAreBounded(t *testing.T) {
	honest := api.Usage{InputTokens: 900_000, OutputTokens: 60_000, CacheReadTokens: 3_000_000, CacheWriteTokens: 200_000}
	if u, cost := plausible(honest, 42.5, 2*time.Minute); u != honest || cost != 42.5 {
		t.Errorf("an honest figure became %+v, %v", u, cost)
	}
	if u, cost := plausible(api.Usage{}, 0, -time.Hour); u != (api.Usage{}) || cost != 0 {
		t.Errorf("nothing became %+v, %v", u, cost)
	}
	for _, lie := range []int64{math.MaxInt64, 1 << 40, -1, math.MinInt64} {
		u, cost := plausible(api.Usage{InputTokens: lie, OutputTokens: lie, CacheReadTokens: lie, CacheWriteTokens: lie}, 0, time.Minute)
		if !u.Bounded || !u.Estimated || cost != 0 {
			t.Errorf("%d is not marked: %+v", lie, u)
		}
		for _, n := range []int64{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens} {
			if n < 0 || n > 300_000_000 {
				t.Errorf("%d became %d", lie, n)
			}
		}
		if sum := u.Add(u).Add(u); sum.InputTokens < u.InputTokens || !sum.Bounded {
			t.Errorf("the sum of three is %+v", sum)
		}
	}
	for _, lie := range []float64{math.Inf(1), math.NaN(), -5, 1e12} {
		u, cost := plausible(honest, lie, time.Minute)
		if !u.Bounded || !(cost >= 0 && cost < 20_000) {
			t.Errorf("a cost of %v became %v, %+v", lie, cost, u)
		}
	}
	if u, _ := plausible(honest, 0, time.Hour); u.Bounded {
		t.Errorf("marked for nothing: %+v", u)
	}
}
