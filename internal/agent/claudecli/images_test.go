package claudecli_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/agent/agenttest"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/testkit"
	"github.com/berthdev/berth/internal/testkit/fakellm"
)

// picture returns a PNG that does not compress well.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	m, random := image.NewRGBA(image.Rect(0, 0, width, height)), rand.New(rand.NewPCG(1, 2))
	for y := range height {
		for x := range width {
			m.Set(x, y, color.RGBA{uint8(random.Uint32()), uint8(random.Uint32()), uint8(random.Uint32()), 255})
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The images of a prompt are in the request to the model, now and in the turns after it; other files are named. Tokens
// and cost are those of the service, and a cancelled turn ends as such.
func TestRealCLIGivesImagesToTheModel(t *testing.T) {
	testkit.Proves(t, "C7", "C9")
	t.Parallel()
	onEveryVersion(t, func(t *testing.T, h agenttest.Harness, model *fakellm.Server) {
		small, large := picture(t, 40, 30), picture(t, 2500, 900)
		turn := agenttest.Turn("look at this! it's \"odd\" 100%\n[[say {{prompt}}]]")
		turn.Attachments = []agent.Attachment{
			h.Attach(t, "attachments/1/größe.png", "image/png", small),
			h.Attach(t, "attachments/1/table.csv", "text/csv", []byte("a;b")),
		}
		o := h.Do(t, turn)
		checkTokens(t, o, model)
		seen := lastOf(t, model)
		if len(seen.Images) != 1 || seen.Images[0].MediaType != "image/png" || !bytes.Equal(seen.Images[0].Data, small) {
			t.Errorf("the model got %d images", len(seen.Images))
		}
		for _, want := range []string{`look at this! it's "odd" 100%`, "[attached: /workspace/attachments/1/größe.png (image/png, ", "[attached: /workspace/attachments/1/table.csv (text/csv, 3 bytes)]"} {
			if !strings.Contains(seen.Prompt, want) {
				t.Errorf("the model was asked %q, without %q", seen.Prompt, want)
			}
		}
		model.Reset()

		turn = agenttest.Next(turn, "and this? [[bash echo again]][[say two]]")
		turn.Attachments = []agent.Attachment{
			h.Attach(t, "attachments/2/large.png", "image/png", large),
			{Name: "gone.png", Path: "/workspace/attachments/2/gone.png", MediaType: "image/png", Size: 1},
		}
		o = h.Do(t, turn)
		checkTokens(t, o, model)
		seen = lastOf(t, model)
		if len(seen.Images) != 2 || !bytes.Equal(seen.Images[0].Data, small) || len(seen.Images[1].Data) < 1000 {
			t.Fatalf("with the second image the model got %d images", len(seen.Images))
		}
		if n := len(seen.Images[1].Data); n > agent.MaxInline { // the CLI makes it smaller
			t.Errorf("the large image of %d bytes reached the model as %d bytes", len(large), n)
		}
		model.Reset()

		turn = agenttest.Next(turn, "no image now [[say three]]")
		turn.Attachments = nil
		checkTokens(t, h.Do(t, turn), model)
		if seen = lastOf(t, model); len(seen.Images) != 2 || seen.Turn != 3 {
			t.Errorf("turn %d of the resumed session has %d images", seen.Turn, len(seen.Images))
		}
		model.Reset()

		turn = agenttest.Next(turn, "[[say on it]][[bash echo >begun; sleep 600]]")
		turn.Attachments = []agent.Attachment{h.Attach(t, "attachments/3/a.png", "image/png", small)}
		h.Start(t, turn)
		h.Awaits(t, "begun")
		h.Cancel(t, turn)
		if o = h.Read(t, turn, agent.Cursor{}); o.End.Status != api.TurnCancelled || o.End.Usage.Estimated || o.End.Usage.InputTokens != int64(model.Totals().All().Input) {
			t.Errorf("the cancelled turn ended %+v; in truth %+v", o.End, model.Totals().All())
		}
		if _, there := h.File(t, files.HomeDir, ".berth/turns/"+agent.ProcessID(turn)+".prompt"); there {
			t.Error("the prompt was left behind")
		}
	})
}

func checkTokens(t *testing.T, o agenttest.Outcome, model *fakellm.Server) {
	t.Helper()
	want, got := model.Totals().All(), o.End.Usage
	if o.End.Status != api.TurnCompleted || got.InputTokens != int64(want.Input) || got.OutputTokens != int64(want.Output) ||
		got.CacheReadTokens != int64(want.CacheRead) || got.CacheWriteTokens != int64(want.CacheCreate) || got.Estimated || o.End.CostUSD <= 0 {
		t.Errorf("it ended %+v, with tokens %+v, in truth %+v", o.End, got, want)
	}
}

// lastOf returns the last request of the conversation.
func lastOf(t *testing.T, model *fakellm.Server) (last fakellm.Request) {
	t.Helper()
	for _, r := range model.Requests() {
		if strings.HasSuffix(r.Path, "/messages") && !r.Side {
			last = r
		}
	}
	if last.Path == "" {
		t.Fatal("the model was not asked")
	}
	return last
}
