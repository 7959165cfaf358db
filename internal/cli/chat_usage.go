package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
)

// usageLine is what a turn used, how long it took, and the version that was saved after it.
func (s *screenTurn) usageLine(e api.TurnEvent, took time.Duration) string {
	var parts []string
	if u := e.Usage; u != nil {
		about := ""
		if u.Estimated {
			about = "≈ "
		}
		parts = append(parts, about+thousands(u.InputTokens)+" in", thousands(u.OutputTokens)+" out")
		if cache := u.CacheReadTokens + u.CacheWriteTokens; cache > 0 {
			parts = append(parts, "cache "+thousands(cache))
		}
	}
	if e.CostUSD > 0 {
		parts = append(parts, dollars(e.CostUSD))
	}
	parts = append(parts, brief(max(took, 0)))
	line := "↑ " + strings.Join(parts, " · ")
	switch {
	case e.VersionPending:
		return line + " · not saved yet"
	case e.Version == "":
		return line
	}
	whole := line + " · version " + e.Version
	if s.f.err.tty && len([]rune(whole)) >= s.f.windowSize().Cols {
		// Its end is enough wherever a version is asked for.
		return line + " · version …" + e.Version[max(len(e.Version)-6, 0):]
	}
	return whole
}

// thousands is a number with its digits in groups.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// dollars is a cost: to the cent where that says something, else to the hundredth of one.
func dollars(usd float64) string {
	if usd >= 1 {
		return fmt.Sprintf("$%.2f", usd)
	}
	return fmt.Sprintf("$%.4f", usd)
}
