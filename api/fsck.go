package api

// Fsck is the result of a check of the database.
type Fsck struct {
	Checks        int      `json:"checks" doc:"Number of checks of the database"`
	Conversations int      `json:"conversations" doc:"Number of conversations whose stats were compared with their messages"`
	Messages      int64    `json:"messages"`
	Undelivered   int64    `json:"undelivered" doc:"Messages that are stored but not counted yet, because the message store failed"`
	Problems      []string `json:"problems"`
}
