package conversations

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

const usagePath = "/api/v1/usage"

const (
	usageDays  = 30    // the default period
	mostDays   = 366   // maximum number of days in a report
	mostUsage  = 1000  // maximum number of items in an answer
	mostCounts = 50000 // maximum number of rows that are added up for an answer
)

func (a *handlers) addUsage() {
	usage := rest.Operation{
		Route: exchange.Route{Method: http.MethodGet, Path: usagePath, Name: "get-usage", Scope: api.ScopeRead},
		Tag:   "Conversations", Summary: "Get the tenant's usage", Problems: []api.Code{api.CodeInvalidID, api.CodeTooLarge},
	}
	usage.Description = "Tokens and cost by day, model and conversation, deleted conversations included."
	rest.Serve(a.Spec, usage, a.usage)
}

type usageQuery struct {
	From           string   `query:"from" format:"date" doc:"The first day, in UTC; default: 30 days before the last day"`
	To             string   `query:"to" format:"date" doc:"The last day, in UTC; default: today"`
	GroupBy        []string `query:"group_by" enum:"day,model,conversation" doc:"The fields to group by, separated by commas; default: day,model"`
	ConversationID string   `query:"conversation_id" maxLength:"63" doc:"Only the usage of this conversation"`
}

func (a *handlers) usage(ctx context.Context, in *usageQuery) (*rest.Reply[api.UsageReport], error) {
	from, to, err := in.days(time.Now().UTC())
	if err != nil {
		return nil, err
	}
	only := in.ConversationID
	if only != "" {
		if only, err = sandbox.ParseID(only); err != nil {
			return nil, err
		}
		if only, err = a.In(ctx).ConversationID(ctx, only); err != nil {
			return nil, err
		}
	}
	by := in.GroupBy
	if len(by) == 0 {
		by = []string{"day", "model"}
	}
	rows, err := a.In(ctx).UsageCounts().Usage(ctx, from, to, only, slices.Contains(by, "conversation"), mostCounts+1)
	if err != nil {
		return nil, err
	}
	if len(rows) > mostCounts {
		return nil, fault.Errorf("read usage", api.CodeTooLarge, "more than %d figures would have to be added up; ask for fewer days, or not by conversation", mostCounts)
	}
	out := api.UsageReport{From: from, To: to}
	out.Items, out.Total = grouped(rows, by)
	if len(out.Items) > mostUsage {
		out.Items, out.Truncated = out.Items[:mostUsage], true
	}
	return &rest.Reply[api.UsageReport]{Body: out}, nil
}

// days returns the first and the last day of the report.
func (q *usageQuery) days(now time.Time) (from, to string, err error) {
	last := now
	if q.To != "" {
		if last, err = time.Parse(time.DateOnly, q.To); err != nil {
			return "", "", exchange.InvalidField("query.to", "expected a day such as 2026-11-30")
		}
	}
	first := last.AddDate(0, 0, 1-usageDays)
	if q.From != "" {
		if first, err = time.Parse(time.DateOnly, q.From); err != nil {
			return "", "", exchange.InvalidField("query.from", "expected a day such as 2026-11-01")
		}
	}
	from, to = first.Format(time.DateOnly), last.Format(time.DateOnly)
	switch {
	case from > to:
		return "", "", exchange.InvalidField("query.from", "expected a day that is not after the last one, "+to)
	case last.Sub(first) > mostDays*24*time.Hour:
		return "", "", exchange.InvalidField("query.from", "expected at most 366 days")
	}
	return from, to, nil
}

// grouped returns the sums of the rows by the given fields, and the total.
func grouped(rows []store.UsageRow, by []string) ([]api.UsageItem, api.UsageItem) {
	type group struct{ day, model, conversation string }
	sums, all := map[group]store.Totals{}, store.Totals{}
	for _, row := range rows {
		var g group
		for _, what := range by {
			switch what {
			case "day":
				g.day = row.Day
			case "model":
				g.model = row.Model
			case "conversation":
				g.conversation = row.Conversation
			}
		}
		sums[g], all = sums[g].Add(row.Totals), all.Add(row.Totals)
	}
	items := make([]api.UsageItem, 0, len(sums))
	for g, sum := range sums {
		item := usageOut(sum)
		item.Day, item.Model, item.ConversationID = g.day, g.model, sandbox.PublicID(g.conversation)
		items = append(items, item)
	}
	slices.SortFunc(items, func(x, y api.UsageItem) int {
		return cmp.Or(strings.Compare(y.Day, x.Day), cmp.Compare(size(y.Usage), size(x.Usage)),
			strings.Compare(x.Model, y.Model), strings.Compare(x.ConversationID, y.ConversationID))
	})
	return items, usageOut(all)
}

func size(u api.Usage) int64 {
	return u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens
}

func usageOut(t store.Totals) api.UsageItem {
	return api.UsageItem{
		Messages: t.Messages, CostUSD: store.Dollars(t.CostNanos),
		Usage: api.Usage{InputTokens: t.Input, OutputTokens: t.Output, CacheReadTokens: t.CacheRead, CacheWriteTokens: t.CacheWrite},
	}
}
