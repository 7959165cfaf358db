package chat

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
	"github.com/berthdev/berth/internal/cli/ui"
)

func (a *app) usageReport() *cobra.Command {
	var filter client.UsageFilter
	var days int
	by := "day"
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show used tokens and their cost",
		Long: `Show the usage of conversations: messages, tokens by kind and cost, for each day, model or conversation.
Days are in UTC and include today. Costs are those that agents report, or follow from the prices in the
server's configuration.`,
		Example: "  berth usage\n  berth usage --days 7 --by model\n  berth usage --by conversation --json",
		Args:    ui.Args(0, 0, ""),
	}
	cmd.RunE = ui.Run(func(ctx context.Context, _ []string) error {
		switch {
		case !slices.Contains(groupings, by):
			return ui.Usagef(cmd, "--by is one of %s, not %q", strings.Join(groupings, ", "), by)
		case days < 1 || days > maxDays:
			return ui.Usagef(cmd, "--days is 1 to %d", maxDays)
		}
		today := a.Now().UTC()
		filter.By, filter.From, filter.To = []string{by}, today.AddDate(0, 0, 1-days).Format(time.DateOnly), today.Format(time.DateOnly)
		return a.runUsage(ctx, filter, by, days)
	})
	a.WideFlag(cmd)
	flags := a.Online(cmd).Flags()
	flags.IntVar(&days, "days", 30, "so many `DAYS`, up to today")
	flags.StringVar(&by, "by", by, "what to add up by: `day|model|conversation`")
	flags.StringVarP(&filter.ConversationID, "conversation", "c", "", "only of the conversation of this `ID`")
	ui.Offer(cmd, "by", groupings)
	ui.Offer(cmd, "days", []string{"1", "7", "30", "90", "365"})
	_ = cmd.RegisterFlagCompletionFunc("conversation", a.completeConversations(-1))
	return cmd
}

const maxDays = 366

var groupings = []string{"day", "model", "conversation"}

func (a *app) runUsage(ctx context.Context, filter client.UsageFilter, by string, days int) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	report, err := c.Usage(ctx, filter)
	switch {
	case err != nil:
		return c.Explain(err)
	case a.JSON:
		return ui.WriteJSON(a.Out, report)
	case len(report.Items) == 0:
		a.Notef("Nothing was used in the last %s. 'berth chat PROMPT' changes that.", ui.Plural(days, "day", "days"))
		return nil
	}
	titles := map[string]string{}
	if by == "conversation" {
		titles = titlesOf(c.Conversations.List(ctx, client.ConversationFilter{}), report.Items)
	}
	return a.usageTable(report, by, titles)
}

// titlesOf returns the titles of the conversations in items. A deleted conversation has none.
func titlesOf(conversations iter.Seq2[api.Conversation, error], items []api.UsageItem) map[string]string {
	titles, left := map[string]string{}, len(items)
	for v, err := range conversations {
		if err != nil || len(titles) >= maxTitles || left == 0 {
			break
		}
		titles[v.ID] = v.Title
		if slices.ContainsFunc(items, func(i api.UsageItem) bool { return i.ConversationID == v.ID }) {
			left--
		}
	}
	return titles
}

// maxTitles is the maximum number of conversations that are read to find titles.
const maxTitles = 1000

func (a *app) usageTable(report api.UsageReport, by string, titles map[string]string) error {
	// Prompts have neither a model nor tokens, so they are left out.
	items := slices.DeleteFunc(report.Items, func(i api.UsageItem) bool { return by == "model" && i.Model == "" && sum(i.Usage) == 0 })
	var most int64
	for _, i := range items {
		most = max(most, sum(i.Usage))
	}
	columns := []string{strings.ToUpper(by), "MESSAGES", "IN", "OUT", "CACHE READ", "CACHE WRITE", "COST", "TOKENS"}
	if by == "conversation" {
		columns = append(columns, "TITLE")
	}
	t := a.NewTable(columns...)
	t.Right = []int{1, 2, 3, 4, 5, 6}
	t.Drop = []string{"CACHE WRITE", "CACHE READ", "MESSAGES"}
	add := func(name ui.Cell, i api.UsageItem, picture, title string) error {
		cells := []ui.Cell{name, ui.Plain(ui.Thousands(i.Messages)), ui.Plain(ui.Thousands(i.Usage.InputTokens)), ui.Plain(ui.Thousands(i.Usage.OutputTokens)),
			ui.Plain(ui.Thousands(i.Usage.CacheReadTokens)), ui.Plain(ui.Thousands(i.Usage.CacheWriteTokens)), ui.Plain(costOf(i.CostUSD)),
			ui.Plain(picture + " " + ui.Thousands(sum(i.Usage))), ui.Plain(title)}
		return t.Add(cells[:len(columns)]...)
	}
	for _, i := range items {
		name, title := ui.First(i.Day, i.Model, a.ShortID(i.ConversationID), "-"), a.Abridge(ui.Clean(ui.OrDash(titles[i.ConversationID])), 40)
		if err := add(ui.Plain(name), i, smallBar(sum(i.Usage), most), title); err != nil {
			return err
		}
	}
	if err := add(ui.Coloured("total", ui.Bold), report.Total, strings.Repeat(" ", smallBarWidth), ""); err != nil {
		return err
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if report.Truncated {
		a.Notef("There is more than is listed; the total counts all of it. --days and --conversation narrow it.")
	}
	return nil
}

func sum(u api.Usage) int64 {
	return u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens
}

const smallBarWidth = 12

// smallBar draws the part of the whole as a bar, with a precision of an eighth of a character.
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
