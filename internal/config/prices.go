package config

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/berthdev/berth/api"
)

// Price is the price of a million tokens of a model, in dollars.
type Price struct {
	Model                                string // a pattern: * matches any text
	Input, Output, CacheRead, CacheWrite float64
}

// Prices is a price list. The first entry whose pattern matches the model applies.
type Prices []Price

// Of returns the price of the tokens of a model in dollars, or 0 if no entry matches.
func (ps Prices) Of(model string, u api.Usage) float64 {
	for _, p := range ps {
		if ok, _ := path.Match(p.Model, model); ok {
			return (p.Input*float64(u.InputTokens) + p.Output*float64(u.OutputTokens) +
				p.CacheRead*float64(u.CacheReadTokens) + p.CacheWrite*float64(u.CacheWriteTokens)) / 1e6
		}
	}
	return 0
}

const priceForm = `write "MODEL=INPUT/OUTPUT/CACHE_READ/CACHE_WRITE" in dollars per million tokens, such as "claude-sonnet-*=3/15/0.30/3.75"; the last two may be left out`

func parsePrices(raw string) (Prices, *badValue) {
	var all Prices
	for entry := range strings.SplitSeq(raw, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		p, ok := parsePrice(entry)
		if !ok {
			return nil, badValuef(priceForm, "has an entry that is no price: %s", entry)
		}
		all = append(all, p)
	}
	return all, nil
}

func parsePrice(entry string) (p Price, ok bool) {
	model, sums, ok := strings.Cut(entry, "=")
	p.Model = strings.TrimSpace(model)
	if _, err := path.Match(p.Model, ""); !ok || err != nil || p.Model == "" {
		return p, false
	}
	parts := strings.Split(sums, "/")
	if len(parts) != 2 && len(parts) != 4 {
		return p, false
	}
	for i, at := range []*float64{&p.Input, &p.Output, &p.CacheRead, &p.CacheWrite}[:len(parts)] {
		v, err := strconv.ParseFloat(strings.TrimSpace(parts[i]), 64)
		if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return p, false
		}
		*at = v
	}
	return p, true
}

func formatPrices(ps Prices) string {
	entries := make([]string, len(ps))
	for i, p := range ps {
		entries[i] = fmt.Sprintf("%s=%v/%v/%v/%v", p.Model, p.Input, p.Output, p.CacheRead, p.CacheWrite)
	}
	return strings.Join(entries, ",")
}
