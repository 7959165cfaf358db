package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/berthdev/berth/internal/transcript"
)

// batch is the number of items that DynamoDB deletes in one request.
const batch = 25

// Forget implements transcript.Store. Heads are deleted first: a message with a head is complete.
func (s *Store) Forget(ctx context.Context, tenant, conversation string) error {
	if !transcript.ValidID(conversation) {
		return nil
	}
	pk := partition(tenant, conversation)
	var err error
	for _, prefix := range []string{headPrefix, partPrefix} {
		if err == nil {
			err = s.forget(ctx, pk, prefix)
		}
	}
	return s.explain("forget messages", err)
}

func (s *Store) forget(ctx context.Context, pk, prefix string) error {
	var failed error
	err := s.query(ctx, pk, prefix, func(in *dynamodb.QueryInput) {
		in.ProjectionExpression = aws.String("pk, sk")
	}, func(out *dynamodb.QueryOutput) bool {
		for items := out.Items; len(items) > 0 && failed == nil; items = items[min(batch, len(items)):] {
			failed = s.delete(ctx, items[:min(batch, len(items))])
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// delete deletes up to batch items. DynamoDB may leave some of them unprocessed without an error; delete retries
// these.
func (s *Store) delete(ctx context.Context, keys []item) error {
	var requests []types.WriteRequest
	for _, key := range keys {
		requests = append(requests, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}})
	}
	for attempt := 0; ; attempt++ {
		out, err := do(ctx, s, s.client.BatchWriteItem, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{s.Table: requests},
		})
		if err != nil {
			return err
		}
		if requests = out.UnprocessedItems[s.Table]; len(requests) == 0 {
			return nil
		}
		if err := s.call(ctx).wait(attempt); err != nil {
			return err
		}
	}
}
