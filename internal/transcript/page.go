package transcript

import (
	"context"
	"iter"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// ValidID reports whether a text is a valid id of a message or a conversation: 1 to 128 letters, digits, dots,
// dashes and underscores. UUIDs are valid.
func ValidID(id string) bool {
	for _, c := range []byte(id) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return id != "" && len(id) <= 128
}

// Check returns the page's limit within its bounds, or api.CodeInvalidCursor if After is not valid.
func (p Page) Check() (limit int, err error) {
	if p.After != "" && !ValidID(p.After) {
		return 0, fault.Errorf("list messages", api.CodeInvalidCursor, "%.300q is no message's id", p.After)
	}
	if p.Limit <= 0 {
		return DefaultLimit, nil
	}
	return min(p.Limit, MaxLimit), nil
}

// All yields all messages of a conversation, oldest first. If a read fails, the last pair has the error. Messages that
// are put during the iteration may be missing.
func All(ctx context.Context, s Store, tenant, conversation string) iter.Seq2[api.Message, error] {
	return func(yield func(api.Message, error) bool) {
		for page := (Page{Limit: MaxLimit}); ; {
			messages, next, err := s.List(ctx, tenant, conversation, page)
			for _, m := range messages {
				if !yield(m, nil) {
					return
				}
			}
			if err != nil {
				yield(api.Message{}, err)
				return
			}
			if next == "" {
				return
			}
			page.After = next
		}
	}
}
