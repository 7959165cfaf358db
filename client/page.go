package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/berthdev/berth/api"
)

// pageSize is the number of items in one page. If such a page exceeds the client's size limit, smaller ones are used.
const pageSize = 200

// all yields the items of a list. It requests each page when the reader gets there. An error ends the sequence.
func all[T any](ctx context.Context, c *Client, op string, query url.Values, at ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		limit := pageSize
		for cursor := ""; ; {
			page, err := onePage[T](ctx, c, op, query, at, cursor, limit)
			if errors.Is(err, errTooLarge) && limit > 1 {
				limit = max(limit/4, 1)
				continue
			}
			if err != nil {
				yield(zero, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			// A repeated cursor would read the same page for ever.
			if page.NextCursor == cursor {
				yield(zero, fmt.Errorf("%s: the server gave the same cursor twice", op))
				return
			}
			cursor = page.NextCursor
		}
	}
}

func onePage[T any](ctx context.Context, c *Client, op string, query url.Values, at path, cursor string, limit int) (api.List[T], error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	maps.Copy(q, query)
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	var page api.List[T]
	_, err := c.do(ctx, call{op: op, method: http.MethodGet, path: at, query: q}, &page)
	return page, err
}
