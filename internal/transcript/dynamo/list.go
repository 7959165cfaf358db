package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/transcript"
)

// List implements transcript.Store.
func (s *Store) List(ctx context.Context, tenant, conversation string, page transcript.Page) (messages []api.Message, next string, err error) {
	limit, err := page.Check()
	if err != nil || !transcript.ValidID(conversation) {
		return nil, "", err
	}
	heads, more, err := s.heads(ctx, partition(tenant, conversation), page, limit)
	if err != nil {
		return nil, "", s.explain("list messages", err)
	}
	for _, h := range heads {
		m, found, err := s.message(ctx, h)
		if err != nil {
			return nil, "", s.explain("list messages", err)
		}
		if found {
			messages = append(messages, m)
		}
	}
	if more {
		next = heads[len(heads)-1].id
	}
	return messages, next, nil
}

// heads returns the heads of a page. more reports whether there is another page.
func (s *Store) heads(ctx context.Context, pk string, page transcript.Page, limit int) (heads []head, more bool, err error) {
	size := 0
	err = s.query(ctx, pk, headPrefix, func(in *dynamodb.QueryInput) {
		in.ScanIndexForward = aws.Bool(!page.Newest)
		in.Limit = aws.Int32(int32(limit) + 1) // the additional item shows that there is another page
		if page.After != "" {
			in.ExclusiveStartKey = keyOf(pk, headPrefix+page.After)
		}
	}, func(out *dynamodb.QueryOutput) bool {
		for _, it := range out.Items {
			if more = len(heads) == limit || size > transcript.PageBytes; more {
				return false
			}
			h := readHead(it)
			heads, size = append(heads, h), size+h.size
		}
		return true
	})
	return heads, more, err
}
