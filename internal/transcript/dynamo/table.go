package dynamo

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// Check implements transcript.Store: it puts an item that is not a message, in the same way as Put.
func (s *Store) Check(ctx context.Context) error {
	_, err := do(ctx, s, s.client.PutItem, &dynamodb.PutItemInput{TableName: &s.Table, Item: keyOf("check", "check")})
	return s.explain("check message store", err)
}

// CreateTable creates the table if there is none, and waits until it can be used. It reports whether it did.
func (s *Store) CreateTable(ctx context.Context) (made bool, err error) {
	const op = "make message store"
	_, err = do(ctx, s, s.client.CreateTable, &dynamodb.CreateTableInput{
		TableName: &s.Table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
		},
	})
	var there *types.ResourceInUseException
	if err != nil && !errors.As(err, &there) {
		return false, s.explain(op, err)
	}
	return err == nil, s.explain(op, s.await(ctx))
}

// await waits until the table can be used.
func (s *Store) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for attempt := 0; ; attempt++ {
		out, err := do(ctx, s, s.client.DescribeTable, &dynamodb.DescribeTableInput{TableName: &s.Table})
		var missing *types.ResourceNotFoundException // a new table is not visible everywhere at once
		if err != nil && !errors.As(err, &missing) {
			return err
		}
		if err == nil && out.Table.TableStatus == types.TableStatusActive {
			return s.checkKeys(out.Table)
		}
		if err := s.call(ctx).wait(attempt); err != nil {
			return err
		}
	}
}

// checkKeys returns an error if a table does not have the keys of Berth's table.
func (s *Store) checkKeys(table *types.TableDescription) error {
	keys := map[string]types.KeyType{}
	for _, k := range table.KeySchema {
		keys[aws.ToString(k.AttributeName)] = k.KeyType
	}
	if keys["pk"] == types.KeyTypeHash && keys["sk"] == types.KeyTypeRange {
		return nil
	}
	e := fault.Errorf("make message store", api.CodeInvalidConfig, "the table %s is there and has other keys", s.Table)
	e.Hint = "Name another table in message_store."
	return e
}
