package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
)

func (f *frame) usageReport() *cobra.Command {
	var filter client.UsageFilter
	var days int
	by := "day"
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show the tokens that agents used, and their cost",
		Long: `Show what conversations used: messages, tokens by kind and cost, for each day, model or conversation. Days
are in UTC, and today is one of them. Costs are what the agents say, or follow from the prices in the
server's configuration.`,
		Example: "  berth usage\n  berth usage --days 7 --by model\n  berth usage --by conversation --json",
		Args:    takes(0, 0, ""),
	}
	cmd.RunE = run(func(ctx context.Context, _ []string) error {
		switch {
		case !slices.Contains(groupings, by):
			return usagef(cmd, "--by is one of %s, not %q", strings.Join(groupings, ", "), by)
		case days < 1 || days > mostDays:
			return usagef(cmd, "--days is 1 to %d", mostDays)
		}
		today := f.now().UTC()
		filter.By, filter.From, filter.To = []string{by}, today.AddDate(0, 0, 1-days).Format(time.DateOnly), today.Format(time.DateOnly)
		return f.runUsage(ctx, filter, by, days)
	})
	flags := f.online(cmd).Flags()
	flags.IntVar(&days, "days", 30, "so many `DAYS`, up to today")
	flags.StringVar(&by, "by", by, "what to add up by: `day|model|conversation`")
	flags.StringVarP(&filter.ConversationID, "conversation", "c", "", "only of the conversation of this `ID`")
	offer(cmd, "by", groupings)
	offer(cmd, "days", []string{"1", "7", "30", "90", "365"})
	_ = cmd.RegisterFlagCompletionFunc("conversation", f.completeConversations(-1))
	return cmd
}

const mostDays = 366

var groupings = []string{"day", "model", "conversation"}

func (f *frame) runUsage(ctx context.Context, filter client.UsageFilter, by string, days int) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	report, err := c.Usage(ctx, filter)
	switch {
	case err != nil:
		return c.explain(err)
	case f.json:
		return writeJSON(f.out, report)
	case len(report.Items) == 0:
		f.notef("Nothing was used in the last %s. 'berth chat PROMPT' changes that.", plural(days, "day", "days"))
		return nil
	}
	titles := map[string]string{}
	if by == "conversation" {
		titles = titlesOf(c.Conversations.List(ctx, client.ConversationFilter{}), report.Items)
	}
	return f.usageTable(report, by, titles)
}

// titlesOf finds the titles of those that are listed. A conversation that was deleted has none.
func titlesOf(conversations iter.Seq2[api.Conversation, error], items []api.UsageItem) map[string]string {
	titles, left := map[string]string{}, len(items)
	for v, err := range conversations {
		if err != nil || len(titles) >= mostTitles || left == 0 {
			break
		}
		titles[v.ID] = v.Title
		if slices.ContainsFunc(items, func(i api.UsageItem) bool { return i.ConversationID == v.ID }) {
			left--
		}
	}
	return titles
}

// mostTitles is how many conversations are looked through for titles.
const mostTitles = 1000

func (f *frame) usageTable(report api.UsageReport, by string, titles map[string]string) error {
	// Prompts have no model, and no tokens.
	items := slices.DeleteFunc(report.Items, func(i api.UsageItem) bool { return by == "model" && i.Model == "" && sum(i.Usage) == 0 })
	var most int64
	for _, i := range items {
		most = max(most, sum(i.Usage))
	}
	columns := []string{strings.ToUpper(by), "MESSAGES", "IN", "OUT", "CACHE READ", "CACHE WRITE", "COST", "TOKENS"}
	if by == "conversation" {
		columns = append(columns, "TITLE")
	}
	t := f.table(columns...)
	t.right = []int{1, 2, 3, 4, 5, 6}
	add := func(name cell, i api.UsageItem, picture, title string) error {
		cells := []cell{name, plain(thousands(i.Messages)), plain(thousands(i.Usage.InputTokens)), plain(thousands(i.Usage.OutputTokens)),
			plain(thousands(i.Usage.CacheReadTokens)), plain(thousands(i.Usage.CacheWriteTokens)), plain(costOf(i.CostUSD)),
			plain(picture + " " + thousands(sum(i.Usage))), plain(title)}
		return t.add(cells[:len(columns)]...)
	}
	for _, i := range items {
		name, title := first(i.Day, i.Model, i.ConversationID, "-"), cutTo(clean(orDash(titles[i.ConversationID])), 40)
		if err := add(plain(name), i, smallBar(sum(i.Usage), most), title); err != nil {
			return err
		}
	}
	if err := add(cell{"total", bold}, report.Total, strings.Repeat(" ", smallBarWidth), ""); err != nil {
		return err
	}
	if err := t.flush(); err != nil {
		return err
	}
	if report.Truncated {
		f.notef("There is more than is listed; the total counts all of it. --days and --conversation narrow it.")
	}
	return nil
}

func sum(u api.Usage) int64 {
	return u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens
}

const smallBarWidth = 12

// smallBar is a picture of a part, to the eighth of a character.
func smallBar(part, whole int64) string {
	if whole <= 0 {
		return strings.Repeat(" ", smallBarWidth)
	}
	eighths := int(float64(part) / float64(whole) * smallBarWidth * 8)
	if part > 0 {
		eighths = max(eighths, 1)
	}
	picture := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		picture += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return fmt.Sprintf("%-*s", smallBarWidth, picture)
}
