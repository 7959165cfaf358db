package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
)

// PromptFile is a file of a prompt.
type PromptFile struct {
	Name      string `json:"name"`
	Path      string `json:"path"` // below the workspace
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
	Data      []byte `json:"-"` // only in requests
}

// addFiles stores the bytes of the turn's files. Their sum over the tenant's unfinished turns is limited.
func (tu Turns) addFiles(ctx context.Context, tx *txn, op string, n NewTurn) error {
	if len(n.Files) == 0 {
		return nil
	}
	held, err := first(ctx, tx, scanOne[int64], `select cast(coalesce(sum(size), 0) as bigint) from prompt_files where tenant = $1`, tu.scope.tenant)
	if err != nil {
		return err
	}
	for i, f := range n.Files {
		if held += f.Size; held > n.MostBytes {
			e := fault.Errorf(op, api.CodeQuotaExceeded, "the attachments of the tenant's unfinished turns would have more than %d bytes", n.MostBytes)
			e.Hint = "Wait until some of them have ended, or raise max_waiting_attachment_bytes."
			return e
		}
		if _, err := tx.exec(ctx, `insert into prompt_files (turn, n, tenant, size, data) values ($1, $2, $3, $4, $5)`,
			n.ID, i, tu.scope.tenant, f.Size, f.Data); err != nil {
			return err
		}
	}
	return nil
}

// File returns the bytes of a turn's file by its place in Turn.Files. It returns ErrNotFound if the agent of the
// turn has ended.
func (runs TurnRuns) File(ctx context.Context, turn string, n int) ([]byte, error) {
	const op = "read attachment"
	data, err := first(ctx, runs.db.read, scanOne[[]byte], `select data from prompt_files where turn = $1 and n = $2`, turn, n)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, notFound(op, "attachment of turn", turn)
	}
	return data, runs.db.fail(op, err)
}

// dropFiles removes the bytes of a turn's files.
func dropFiles(ctx context.Context, tx *txn, turn string) error {
	_, err := tx.exec(ctx, `delete from prompt_files where turn = $1`, turn)
	return err
}

// DropFiles removes the files of turns that a Berth without this table has ended.
func (runs TurnRuns) DropFiles(ctx context.Context) error {
	_, err := runs.db.write.exec(ctx, `delete from prompt_files where exists (
		select 1 from turns where turns.id = prompt_files.turn and (finished_at is not null or outcome is not null))`)
	return runs.db.recordScan("remove attachments", err)
}
