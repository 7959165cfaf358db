package app_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/s3test"
)

// A store without conditional writes that hangs holds up no turn and no delete without a save, though its saves hold
// the sandbox's lease. When it answers again every turn has its version.
func TestHangingStoreWithoutConditionalWrites(t *testing.T) {
	testkit.Proves(t, "S7")
	t.Parallel()
	g, bucket := newGate(t, s3test.New(t), true)
	p := start(t, onS3(local(t), bucket))
	c := p.client(t, client.WithTimeout(time.Minute))
	h := &hanging{T: t, p: p}
	var err error
	if h.conv, _, err = c.Conversations.Create(t.Context(), api.CreateConversation{Template: "demo"}); err != nil {
		t.Fatal(err)
	}
	h.work()
	h.settle()
	box1 := saved(t, c, "box")
	g.hangs.Store(true)
	for range 2 {
		if end := h.work(); !end.VersionPending {
			t.Errorf("the turn ended with %+v", end)
		}
	}
	if err := c.Sandboxes.Delete(t.Context(), "box", client.SkipSave()); err != nil {
		t.Error(err)
	}
	isFree(t, c, box1)
	g.hangs.Store(false)
	h.settle()
	seen := map[string]bool{}
	for _, id := range h.turns {
		turn, err := c.Conversations.Turn(t.Context(), h.conv.ID, id)
		if err != nil || seen[turn.Version] {
			t.Error(fmt.Sprintf("%+v", turn), err)
		}
		seen[turn.Version] = true
	}
}
