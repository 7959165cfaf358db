package local

import (
	"strings"
	"testing"
)

func TestEveryTierIsExplained(t *testing.T) {
	for _, tier := range []Tier{TierRoot, TierMapped, TierUser, TierNone} {
		if text := tier.Explain(); !strings.HasPrefix(text, "tier "+string(tier)+":") {
			t.Errorf("%s: %s", tier, text)
		}
	}
}

func TestTierByTheUserNamespace(t *testing.T) {
	const machine, auto, alone = "         0          0 4294967295\n", "0 1001 1\n1 100000 65535\n", "0 1001 1\n"
	for _, c := range []struct {
		euid       int
		uids, gids string
		want       Tier
	}{
		{0, machine, machine, TierRoot},
		{1001, machine, machine, TierUser},
		{0, auto, auto, TierMapped},
		{0, auto, alone, TierUser},
		{0, alone, alone, TierUser},
		{0, "0 1001 1\n2 100000 65536\n", auto, TierUser},
		{0, "", "", TierUser},
		{0, "0 1 x\n", auto, TierUser},
	} {
		if got := tierOf(c.euid, c.uids, c.gids); got != c.want {
			t.Errorf("euid %d, %q, %q: %s, want %s", c.euid, c.uids, c.gids, got, c.want)
		}
	}
}
