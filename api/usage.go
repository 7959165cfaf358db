package api

// UsageReport is what a tenant's conversations used over some days.
type UsageReport struct {
	From      string      `json:"from" doc:"The first day, in UTC"`
	To        string      `json:"to" doc:"The last day"`
	Items     []UsageItem `json:"items" doc:"The newest day first, then the most tokens"`
	Total     UsageItem   `json:"total" doc:"Of all items, also of those that are left out"`
	Truncated bool        `json:"truncated,omitempty" doc:"There are more items than are listed"`
}

// UsageItem is what was used of one thing, or in all.
type UsageItem struct {
	Day            string  `json:"day,omitempty" doc:"If grouped by day"`
	Model          string  `json:"model,omitempty" doc:"If grouped by model; prompts have none"`
	ConversationID string  `json:"conversation_id,omitempty" doc:"If grouped by conversation"`
	Messages       int64   `json:"messages"`
	Usage          Usage   `json:"usage"`
	CostUSD        float64 `json:"cost_usd"`
}
