// Package open opens a message store by its address.
package open

import (
	"context"

	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/transcript"
	"github.com/berthdev/berth/internal/transcript/dynamo"
	"github.com/berthdev/berth/internal/transcript/sqltranscript"
)

// Store opens the store at an address: dynamodb://table?endpoint=…&region=…&profile=…, see [dynamo.Parse]. An empty
// address is the database. Store sends no request; the store's Check does.
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

// Migrate creates the table of the store at an address, and returns a report for the user. For the database it does
// nothing, because the database has its own migrations.
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
