package dynamo

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/transcript"
)

// Get implements transcript.Store.
func (s *Store) Get(ctx context.Context, tenant, conversation, id string) (m api.Message, err error) {
	if !transcript.ValidID(conversation) || !transcript.ValidID(id) {
		return m, transcript.Missing(id)
	}
	h, found, err := s.head(ctx, partition(tenant, conversation), id)
	if err == nil && found {
		m, found, err = s.message(ctx, h)
	}
	if err == nil && !found {
		err = transcript.Missing(id)
	}
	return m, s.explain("read message "+id, err)
}

// head reads the head of a message. All reads of this package are strongly consistent.
func (s *Store) head(ctx context.Context, pk, id string) (h head, found bool, err error) {
	out, err := do(ctx, s, s.client.GetItem, &dynamodb.GetItemInput{
		TableName: &s.Table, Key: keyOf(pk, headPrefix+id), ConsistentRead: aws.Bool(true),
	})
	if err != nil || len(out.Item) == 0 {
		return h, false, err
	}
	return readHead(out.Item), true, nil
}

// message reads the whole message of a head. It is not found if parts are missing; see the package documentation.
func (s *Store) message(ctx context.Context, h head) (m api.Message, found bool, err error) {
	body := h.body
	if h.parts > 0 {
		pieces, err := s.parts(ctx, h)
		if err != nil || len(pieces) != h.parts {
			return m, false, err
		}
		body = strings.Join(pieces, "")
	}
	if err := h.check(body); err != nil {
		return m, false, err
	}
	m, err = transcript.Decode(h.id, body)
	return m, err == nil, err
}

// parts reads the texts of a message's parts.
func (s *Store) parts(ctx context.Context, h head) (pieces []string, err error) {
	err = s.query(ctx, h.pk, h.partsPrefix(), func(in *dynamodb.QueryInput) {}, func(out *dynamodb.QueryOutput) bool {
		for _, it := range out.Items {
			pieces = append(pieces, attributes(it).text("body"))
		}
		return true
	})
	return pieces, err
}

// countParts returns how many of a message's parts exist.
func (s *Store) countParts(ctx context.Context, h head) (n int, err error) {
	if h.parts == 0 {
		return 0, nil
	}
	err = s.query(ctx, h.pk, h.partsPrefix(), func(in *dynamodb.QueryInput) { in.Select = types.SelectCount }, func(out *dynamodb.QueryOutput) bool {
		n += int(out.Count)
		return true
	})
	return n, err
}

// query reads the items of a partition whose sort keys have a prefix. It calls each with up to a megabyte of items,
// until each returns false.
func (s *Store) query(ctx context.Context, pk, prefix string, ask func(*dynamodb.QueryInput), each func(*dynamodb.QueryOutput) bool) error {
	in := &dynamodb.QueryInput{
		TableName: &s.Table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("pk = :pk and begins_with(sk, :prefix)"),
		ExpressionAttributeValues: item{":pk": str(pk), ":prefix": str(prefix)},
	}
	ask(in)
	for {
		out, err := do(ctx, s, s.client.Query, in)
		if err != nil || !each(out) || len(out.LastEvaluatedKey) == 0 {
			return err
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}
