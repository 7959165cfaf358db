package api

// UsageReport is the usage of a tenant's conversations over a range of days.
type UsageReport struct {
	From      string      `json:"from" doc:"The first day, in UTC"`
	To        string      `json:"to" doc:"The last day"`
	Items     []UsageItem `json:"items" doc:"Sorted by day, newest first, then by tokens"`
	Total     UsageItem   `json:"total" doc:"The total of all items, including those that are left out"`
	Truncated bool        `json:"truncated,omitempty" doc:"There are more items than are listed"`
}

// UsageItem is the usage of one group, or the total.
type UsageItem struct {
	Day            string  `json:"day,omitempty" doc:"The day, if grouped by day"`
	Model          string  `json:"model,omitempty" doc:"The model, if grouped by model; empty for prompts"`
	ConversationID string  `json:"conversation_id,omitempty" doc:"The conversation, if grouped by conversation"`
	Messages       int64   `json:"messages"`
	Usage          Usage   `json:"usage"`
	CostUSD        float64 `json:"cost_usd"`
}
