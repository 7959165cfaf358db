package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/transcript"
)

// maxPutAttempts limits how often a put starts again because the conversation was forgotten during it.
const maxPutAttempts = 5

// Put implements transcript.Store.
func (s *Store) Put(ctx context.Context, tenant string, m api.Message) error {
	body, err := transcript.Encode(m)
	if err != nil {
		return err
	}
	op, pk := "store message "+m.ID, partition(tenant, m.ConversationID)
	for range maxPutAttempts {
		if done, err := s.put(ctx, pk, m.ID, body); err != nil || done {
			return s.explain(op, err)
		}
	}
	return fault.Errorf(op, api.CodeStale, "its conversation is being forgotten")
}

// put makes one attempt. It is done when a complete message exists under the id, this one or an earlier one.
func (s *Store) put(ctx context.Context, pk, id, body string) (done bool, err error) {
	it, parts := s.items(pk, id, body)
	if len(parts) > 0 {
		// The message is long, and a repeated put was most likely stored the first time.
		if done, found, err := s.settle(ctx, pk, id); err != nil || found {
			return done, err
		}
	}
	refused, err := s.write(ctx, it, parts)
	if err != nil || !refused {
		return err == nil, err
	}
	done, _, err = s.settle(ctx, pk, id)
	return done, err
}

// write puts the parts and then the head. It is refused if a head exists. That head may be its own: then the response
// was lost and the request repeated.
func (s *Store) write(ctx context.Context, head item, parts []item) (refused bool, err error) {
	for _, it := range append(parts, head) { // the head last: a reader that finds the head finds all parts
		in := &dynamodb.PutItemInput{TableName: &s.Table, Item: it}
		if isHead(it) {
			in.ConditionExpression = aws.String("attribute_not_exists(sk)")
		}
		if _, err := do(ctx, s, s.client.PutItem, in); isThere(err) {
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	return false, nil
}

// settle checks the existing head of a message. It is done if the head has all its parts. A head without them belongs
// to a conversation that was forgotten during the put; settle removes it.
func (s *Store) settle(ctx context.Context, pk, id string) (done, found bool, err error) {
	h, found, err := s.head(ctx, pk, id)
	if err != nil || !found {
		return false, false, err
	}
	n, err := s.countParts(ctx, h)
	if err != nil || n == h.parts {
		return err == nil, true, err
	}
	_, err = do(ctx, s, s.client.DeleteItem, &dynamodb.DeleteItemInput{
		TableName: &s.Table, Key: keyOf(pk, headPrefix+id),
		ConditionExpression:       aws.String("nonce = :nonce"),
		ExpressionAttributeValues: item{":nonce": str(h.nonce)},
	})
	if isThere(err) {
		err = nil // another writer was faster
	}
	return false, true, err
}
