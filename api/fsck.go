package api

// Fsck is what a check of the database found.
type Fsck struct {
	Checks        int      `json:"checks" doc:"Questions asked of the whole database"`
	Conversations int      `json:"conversations" doc:"Whose stats were compared with their messages"`
	Messages      int64    `json:"messages"`
	Undelivered   int64    `json:"undelivered" doc:"Messages that are kept and not counted yet, because the message store did not take them"`
	Problems      []string `json:"problems"`
}
