package store

import (
	"context"
	"encoding/json"

	"github.com/berthdev/berth/api"
)

// putMessage stores a message in a transaction of its own or in a larger one (see Count). One that is there
// already stays as it is.
func (s Scope) putMessage(ctx context.Context, r runner, m api.Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = r.exec(ctx, `insert into messages (conversation, id, tenant, body) values ($1, $2, $3, $4) on conflict do nothing`,
		m.ConversationID, m.ID, s.tenant, string(body))
	return err
}
