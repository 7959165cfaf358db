package chat_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/chat"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/testkit"
)

// withFiles gives the sandboxes of a world files.
func (w *world) withFiles() *world {
	w.Helper()
	if err := fake.MakeFiles(w.dir); err != nil {
		w.Fatal(err)
	}
	return w
}

func attached(sent ...api.PromptFile) func(*chat.PromptRequest) {
	return func(a *chat.PromptRequest) { a.Attachments = sent }
}

// inWorkspace reads a file of the sandbox's workspace.
func (r *replica) inWorkspace(turn store.Turn, path string) (string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	fs, err := r.engine.Handle(acme, turn.Sandbox, "test").Files(ctx, files.WorkingDir)
	if err != nil {
		return "", err
	}
	defer fs.Close()
	f, err := fs.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}

// checkDatabase fails if the database has an attachment that it need not keep, or is wrong otherwise.
func (w *world) checkDatabase() {
	w.Helper()
	if wrong, _, err := w.db.Check(w.Context()); err != nil || len(wrong) > 0 {
		w.Errorf("the database: %v, %v", wrong, err)
	}
}

const onePixel = "\x89PNG\r\n\x1a\n and so on"

// fileWindows are the points at which a server dies with a prompt that has files.
var fileWindows = []string{"accepted", "taken", "ready", "attempt", "before-start", "file", "after-start", "ended"}

// Attachments are as durable as their prompt: whenever a server dies, the next one has them in the workspace before the
// agent starts, whole and once. Then the database forgets them.
func TestAttachmentsOutliveTheirServer(t *testing.T) {
	testkit.Proves(t, "C2", "C4", "C5", "T5")
	for _, window := range fileWindows {
		t.Run(window, func(t *testing.T) {
			t.Parallel()
			crashing(t, func(w *world) {
				w.withFiles()
				first, died := w.dies(window)
				c := first.talk()
				large := strings.Repeat("0123456789abcdef", 1<<16)
				go func() { // accepting may be where it dies
					_, _ = first.try(c, "one two", attached(
						api.PromptFile{Name: "pic.png", Data: []byte(onePixel)}, api.PromptFile{Name: "notes.md", MediaType: "text/markdown", Data: []byte(large)}))
				}()
				died()
				second := w.serve()
				turn := only(second, c)
				if end := last(second.hear(turn, 0)); end.Status != api.TurnCompleted {
					w.Errorf("the turn ended with %+v", end)
				}
				dir := "attachments/" + turn.ID + "/"
				for path, want := range map[string]string{dir + "pic.png": onePixel, dir + "notes.md": large} {
					if got, err := second.inWorkspace(turn, path); err != nil || got != want {
						w.Errorf("%s has %d bytes, %v; want %d", path, len(got), err, len(want))
					}
				}
				if n := w.agents.starts[turn.ID]; n != 1 {
					w.Fatalf("the agent was asked %d times", n)
				}
				got := w.agents.asked[0].Attachments
				want := []agent.Attachment{
					{Name: "pic.png", Path: "/workspace/" + dir + "pic.png", MediaType: "image/png", Size: int64(len(onePixel)), Inline: true},
					{Name: "notes.md", Path: "/workspace/" + dir + "notes.md", MediaType: "text/markdown", Size: 1 << 20},
				}
				if diff := cmp.Diff(want, got); diff != "" {
					w.Errorf("the agent got other attachments: %s", diff)
				}
				listed := []api.Attachment{
					{Name: "pic.png", MediaType: "image/png", Size: int64(len(onePixel)), Path: dir + "pic.png"},
					{Name: "notes.md", MediaType: "text/markdown", Size: 1 << 20, Path: dir + "notes.md"},
				}
				if messages := second.settled(c); len(messages) != 2 || !slices.Equal(messages[0].Attachments, listed) || messages[0].Text() != "one two" {
					w.Errorf("messages are %+v", messages)
				}
				w.checkDatabase()
			})
		})
	}
}

// A turn whose sandbox is replaced before its agent did anything has its attachments in the new one, too. A file that
// is there is not overwritten.
func TestAttachmentsOfASecondAttempt(t *testing.T) {
	testkit.Proves(t, "T5")
	onBoth(t, func(w *world) {
		r := w.withFiles().serve()
		c := r.talk()
		turn := r.ask(c, "again one", attached(api.PromptFile{Name: "a.txt", Data: []byte("a")}))
		if end := last(r.hear(turn, 0)); end.Status != api.TurnCompleted || w.agents.starts[turn.ID] != 2 {
			w.Errorf("%+v after %d starts", end, w.agents.starts[turn.ID])
		}
		for i, asked := range w.agents.asked {
			if len(asked.Attachments) != 1 {
				w.Errorf("attempt %d had %d attachments", i+1, len(asked.Attachments))
			}
		}
		if got, err := r.inWorkspace(turn, "attachments/"+turn.ID+"/a.txt"); got != "a" || err != nil {
			w.Errorf("the file has %q, %v", got, err)
		}
		id := store.NewID()
		fs, err := r.engine.Handle(acme, turn.Sandbox, "test").Files(w.Context(), files.WorkingDir)
		if err != nil {
			w.Fatal(err)
		}
		defer fs.Close()
		path := "attachments/" + id + "/a.txt"
		if _, _, err := fs.Write(w.Context(), path, strings.NewReader("mine"), files.WriteOptions{}); err != nil {
			w.Fatal(err)
		}
		turn = r.ask(c, "two", attached(api.PromptFile{Name: "a.txt", Data: []byte("theirs")}), func(a *chat.PromptRequest) { a.TurnID = id })
		r.hear(turn, 0)
		if got, _ := r.inWorkspace(turn, path); got != "mine" {
			w.Errorf("the file that was there has %q now", got)
		}
		// A file in place of the directory fails the turn, and the message names it.
		if err := fs.Remove(w.Context(), "attachments", true); err != nil {
			w.Fatal(err)
		}
		if _, _, err := fs.Write(w.Context(), "attachments", strings.NewReader("a file"), files.WriteOptions{}); err != nil {
			w.Fatal(err)
		}
		end := last(r.hear(r.ask(c, "three", attached(api.PromptFile{Name: "b.txt", Data: []byte("b")})), 0))
		if end.Status != api.TurnFailed || end.Code != api.CodeNotADirectory || !strings.Contains(end.Message, "b.txt") {
			w.Errorf("with a file in the way it ended %+v", end)
		}
		r.settled(c)
		w.checkDatabase()
	})
}

// A prompt that waits keeps its attachments and its model, and a conversation that is deleted takes them with it.
func TestQueuedAttachments(t *testing.T) {
	onBoth(t, func(w *world) {
		r := w.withFiles().serve(func(o *chat.Options) { o.Attachments = chat.AttachmentLimits{Waiting: 10} })
		c, other := r.talk(), r.talk()
		first := r.ask(c, "wait:x")
		second := r.ask(c, "two", queued, attached(api.PromptFile{Name: "a", Data: []byte("123456")}), func(a *chat.PromptRequest) { a.Model = "big-1" })
		_, err := r.try(other, "three", attached(api.PromptFile{Name: "a", Data: []byte("12345")}))
		wantCode(w, err, api.CodeQuotaExceeded)
		if turns, _, err := r.db.In(acme).Turns().List(w.Context(), other.ID, store.Page{}); err != nil || len(turns) != 0 {
			w.Errorf("a refused prompt made %d turns, %v", len(turns), err)
		}
		r.hear(r.ask(other, "three", attached(api.PromptFile{Name: "a", Data: []byte("1234")})), 0)
		w.agents.let("x")
		r.hear(first, 0)
		r.hear(second, 0)
		if got, err := r.inWorkspace(second, "attachments/"+second.ID+"/a"); got != "123456" || err != nil {
			w.Errorf("the file has %q, %v", got, err)
		}
		if i := slices.IndexFunc(w.agents.asked, func(t agent.Turn) bool { return t.ID == second.ID }); i < 0 || w.agents.asked[i].Model != "big-1" {
			w.Errorf("the turn that waited was asked without its model")
		}
		r.ask(c, "wait:never")
		r.ask(c, "four", queued, attached(api.PromptFile{Name: "b", Data: []byte("1234567890")}))
		if err := r.chat.Of(r.db.In(acme), "test", "").Delete(w.Context(), c.ID, chat.Deletion{}); err != nil {
			w.Fatal(err)
		}
		r.hear(r.ask(other, "five", attached(api.PromptFile{Name: "c", Data: []byte("1234567890")})), 0)
		w.checkDatabase()
	})
}

func TestAttachmentsAreCheckedBeforeTheTurn(t *testing.T) {
	testkit.Proves(t, "E6")
	w := newWorld(t, store.Options{DataDir: t.TempDir()})
	r := w.serve(func(o *chat.Options) { o.Attachments = chat.AttachmentLimits{Count: 2, File: 4, Prompt: 6} })
	c := r.talk()
	file := func(name, media, data string) api.PromptFile {
		return api.PromptFile{Name: name, MediaType: media, Data: []byte(data)}
	}
	for want, sent := range map[api.Code][]api.PromptFile{
		api.CodeManyAttachments: {file("a", "", ""), file("b", "", ""), file("c", "", "")},
		api.CodeLargeAttachment: {file("a", "", "12345")},
		api.CodeInvalidRequest:  {file("a", "no type", "1")},
	} {
		_, err := r.try(c, "x", attached(sent...))
		wantCode(t, err, want)
	}
	_, err := r.try(c, "x", attached(file("a", "", "1234"), file("b", "", "123")))
	wantCode(t, err, api.CodeLargeAttachment)
	if turns, _, err := r.db.In(acme).Turns().List(t.Context(), c.ID, store.Page{}); err != nil || len(turns) != 0 {
		t.Errorf("%d turns, %v", len(turns), err)
	}
}

// Names come from users and from their files: they become safe paths in a directory of the turn, and stay readable.
func TestNamesOfAttachments(t *testing.T) {
	w := newWorld(t, store.Options{DataDir: t.TempDir()}).withFiles()
	r := w.serve(func(o *chat.Options) { o.Attachments = chat.AttachmentLimits{Count: 100} })
	long := strings.Repeat("ü", 300)
	names := []struct{ sent, shown, path string }{
		{"pic.png", "pic.png", "pic.png"},
		{"pic.png", "pic.png", "pic-2.png"},
		{"PIC.PNG", "PIC.PNG", "PIC-3.PNG"},
		{"../../../etc/passwd", "passwd", "passwd"},
		{`C:\Users\ann\my "chart" (1).xlsx`, `my "chart" (1).xlsx`, "my__chart___1_.xlsx"},
		{"größe 名前.csv", "größe 名前.csv", "größe_名前.csv"},
		{"..", "..", "file"},
		{"a/", "file", "file-2"},
		{".berthignore", ".berthignore", "berthignore"},
		{"-rf", "-rf", "rf"},
		{"a\nb\x1b[2J\x00\u202ec", "a_b_[2J__c", "a_b__2J__c"},
		{"$(reboot);`id`|&<>*?'\"", "$(reboot);`id`|&<>*?'\"", "__reboot___id_________"},
		{long + ".tar.gz", long[:254], strings.Repeat("ü", 50)},
		{"bad\xffname.txt", "bad_name.txt", "bad_name.txt"},
	}
	var sent []api.PromptFile
	for _, n := range names {
		sent = append(sent, api.PromptFile{Name: n.sent, Data: []byte(n.sent)})
	}
	c := r.talk()
	turn := r.ask(c, "x", attached(sent...))
	if end := last(r.hear(turn, 0)); end.Status != api.TurnCompleted {
		t.Fatalf("%+v", end)
	}
	listed := r.settled(c)[0].Attachments
	for i, n := range names {
		got := listed[i]
		if got.Name != n.shown || got.Path != "attachments/"+turn.ID+"/"+n.path {
			t.Errorf("%q became %q at %q, want %q at %q", n.sent, got.Name, got.Path, n.shown, n.path)
		}
		if text, err := r.inWorkspace(turn, got.Path); text != n.sent || err != nil {
			t.Errorf("%q has %q, %v", got.Path, text, err)
		}
	}
}

// The content decides whether a file is an image: an agent that gives a service something else as an image breaks its session.
func TestMediaTypesOfAttachments(t *testing.T) {
	w := newWorld(t, store.Options{DataDir: t.TempDir()}).withFiles()
	r := w.serve()
	for _, f := range []struct{ name, given, data, want string }{
		{"a.png", "", onePixel, "image/png"},
		{"a.txt", "text/plain", onePixel, "image/png"},
		{"a.png", "image/png", "not one", "text/plain"},
		{"a.jpg", "", "\x00\x01\x02", "application/octet-stream"},
		{"a", "", "\xff\xd8\xff\xe0", "image/jpeg"},
		{"a", "", "GIF89a", "image/gif"},
		{"a", "", "RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"},
		{"a.csv", "text/csv; charset=utf-8", "a;b", "text/csv"},
		{"a.json", "application/octet-stream", "{}", "application/json"},
		{"a.svg", "image/svg+xml", "<svg/>", "image/svg+xml"},
	} {
		c := r.talk()
		r.hear(r.ask(c, "x", attached(api.PromptFile{Name: f.name, MediaType: f.given, Data: []byte(f.data)})), 0)
		if got := r.settled(c)[0].Attachments[0].MediaType; got != f.want {
			t.Errorf("%s, given as %q: %s, want %s", f.name, f.given, got, f.want)
		}
	}
}

// A server of a Berth that does not know attachments ended a turn: the next search removes what it left.
func TestForgottenAttachmentsAreRemoved(t *testing.T) {
	onBoth(t, func(w *world) {
		r := w.withFiles().serve()
		c := r.talk()
		turn := r.ask(c, "wait:x", attached(api.PromptFile{Name: "a", Data: []byte("1")}))
		if err := w.db.TurnRuns().DropFiles(w.Context()); err != nil {
			w.Fatal(err)
		}
		if got, err := w.db.TurnRuns().File(w.Context(), turn.ID, 0); err != nil || string(got) != "1" {
			w.Errorf("the file of a turn that runs is gone: %q, %v", got, err)
		}
		w.agents.let("x")
		r.hear(turn, 0)
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		_, err := w.db.TurnRuns().File(ctx, turn.ID, 0)
		wantCode(w, err, api.CodeNotFound)
	})
}
