// Package open finds the message store that an address means.
package open

import (
	"context"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/transcript/dynamo"
	"github.com/berthdev/berth/internal/transcript/sqltranscript"
)

// Store opens the store at an address: dynamodb://table?endpoint=…&region=…&profile=…, see [dynamo.Parse];
// empty is the database. Nothing is asked of it yet; its Check does that.
func Store(ctx context.Context, address string, db *store.DB) (transcript.Store, error) {
	if address == "" {
		return sqltranscript.New(db), nil
	}
	s, err := table(ctx, address)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Migrate makes what the store at an address needs, and says what it did; nothing for the database, which
// has its own schema.
func Migrate(ctx context.Context, address string) (report string, err error) {
	if address == "" {
		return "", nil
	}
	s, err := table(ctx, address)
	if err != nil {
		return "", err
	}
	made, err := s.CreateTable(ctx)
	if err != nil {
		return "", err
	}
	if made {
		return "The table " + s.Table + " for messages was made.", nil
	}
	return "The table " + s.Table + " for messages is there, as this Berth needs it.", nil
}

func table(ctx context.Context, address string) (*dynamo.Store, error) {
	o, err := dynamo.Parse(address)
	if err != nil {
		return nil, err
	}
	return dynamo.Open(ctx, o)
}
