package httpapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/berthdev/berth/api"
	berth "github.com/berthdev/berth/client"
	"github.com/berthdev/berth/internal/driver"
	"github.com/berthdev/berth/internal/driver/fake"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/store/storetest"
	"github.com/berthdev/berth/internal/testkit"
)

// newTalksWithFiles is newTalksOn with sandboxes that have files.
func newTalksWithFiles(t *testing.T, at store.Options) *talks {
	t.Helper()
	w := &talks{agents: &scripted{gates: map[string]chan struct{}{}, cancelled: map[string]chan struct{}{}}}
	return w.on(newSiteOn(t, at, t.TempDir(), func(o *Options) {
		o.inFake(func(f *fake.Driver) driver.Driver { return &fake.Filed{Driver: f} })
	}, w.talk))
}

// form is a body of the type multipart/form-data, made anew with another boundary each time.
func form(t *testing.T, fields []string, files ...api.PromptFile) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		if err := w.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range files {
		header := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name="file%d"; filename="%s"`, i, f.Name)}}
		if f.MediaType != "" {
			header.Set("Content-Type", f.MediaType)
		}
		part, err := w.CreatePart(header)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write(f.Data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

func (w *talks) sendForm(path, key string, fields []string, files ...api.PromptFile) answer {
	w.t.Helper()
	body, contentType := form(w.t, fields, files...)
	header := map[string]string{"Content-Type": contentType, "Accept": "application/json"}
	if key != "" {
		header[idempotencyHeader] = key
	}
	return w.do(call{method: http.MethodPost, path: path, key: w.admin, body: body, header: header})
}

// firstMessage waits for the end of the conversation's turn and returns the prompt.
func (w *talks) firstMessage(path, turn string) api.Message {
	w.t.Helper()
	w.follow(http.MethodGet, path+"/turns/"+turn+"/events", "").rest()
	return into[api.List[api.Message]](w.get(path + "/messages").is(http.StatusOK)).Items[0]
}

// Attachments come as JSON or as a form. The same key with the same content is the same prompt, in either form; with
// another file, name or model it is refused.
func TestAttachmentsOverHTTP(t *testing.T) {
	testkit.Proves(t, "C2", "C5", "T5")
	for name, at := range map[string]func(*testing.T) store.Options{
		"sqlite":   func(t *testing.T) store.Options { return store.Options{DataDir: t.TempDir()} },
		"postgres": func(t *testing.T) store.Options { return store.Options{DatabaseURL: storetest.Postgres(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTalksWithFiles(t, at(t))
			path, _ := w.new("")
			pic := api.PromptFile{Name: "../größe 1.png", Data: []byte("\x89PNG\r\n\x1a\n…")}
			csv := api.PromptFile{Name: "a.csv", MediaType: "text/csv", Data: []byte("a;b")}
			fields := []string{"prompt=look", "model=big"}
			first := into[api.Turn](w.sendForm(path+"/messages", "k", fields, pic, csv).is(http.StatusAccepted))
			m := w.firstMessage(path, first.ID)
			dir := "attachments/" + first.ID + "/"
			if len(m.Attachments) != 2 || m.Attachments[0] != (api.Attachment{Name: "größe 1.png", MediaType: "image/png", Size: 11, Path: dir + "größe_1.png"}) ||
				m.Attachments[1] != (api.Attachment{Name: "a.csv", MediaType: "text/csv", Size: 3, Path: dir + "a.csv"}) || m.Text() != "look" || m.Model != "big" || first.Model != "big" {
				t.Errorf("the message is %+v of turn %+v", m, first)
			}
			if again := into[api.Turn](w.sendForm(path+"/messages", "k", fields, pic, csv).is(http.StatusAccepted)); again.ID != first.ID {
				t.Errorf("the form that was sent again began turn %s, after %s", again.ID, first.ID)
			}
			asJSON := fmt.Sprintf(`{"prompt":"look","model":"big","attachments":[{"name":"../größe 1.png","data":%q},{"media_type":"text/csv","name":"a.csv","data":%q}]}`,
				base64.StdEncoding.EncodeToString(pic.Data), base64.StdEncoding.EncodeToString(csv.Data))
			again := w.do(call{method: http.MethodPost, path: path + "/messages", key: w.admin, body: asJSON, header: map[string]string{idempotencyHeader: "k", "Accept": "application/json"}})
			if got := into[api.Turn](again.is(http.StatusAccepted)); got.ID != first.ID {
				t.Errorf("the same as JSON began turn %s, after %s", got.ID, first.ID)
			}
			other := csv
			other.Data = []byte("a;c")
			w.sendForm(path+"/messages", "k", fields, pic, other).fails(api.CodeKeyReused)
			w.sendForm(path+"/messages", "k", fields, csv, pic).fails(api.CodeKeyReused)
			w.sendForm(path+"/messages", "k", fields, pic).fails(api.CodeKeyReused)
			w.sendForm(path+"/messages", "k", fields[:1], pic, csv).fails(api.CodeKeyReused)

			second, made := w.new("")
			_ = made
			turn := into[api.Turn](w.do(call{method: http.MethodPost, path: second + "/messages", key: w.admin, body: asJSON, header: map[string]string{"Accept": "application/json"}}).is(http.StatusAccepted))
			if m := w.firstMessage(second, turn.ID); len(m.Attachments) != 2 || m.Attachments[1].Path != "attachments/"+turn.ID+"/a.csv" {
				t.Errorf("as JSON: %+v", m)
			}
			if text := string(w.get(second + "/export?format=markdown").is(http.StatusOK).body); !strings.Contains(text, "- attached: `attachments/"+turn.ID+"/a.csv` (text/csv, 3 bytes)") {
				t.Errorf("the export has no attachments:\n%s", text)
			}
		})
	}
}

func TestClientSendsAttachments(t *testing.T) {
	w := newTalksWithFiles(t, store.Options{DataDir: t.TempDir()})
	c, err := berth.New(w.server.URL, w.admin)
	if err != nil {
		t.Fatal(err)
	}
	path, conv := w.new("")
	data := bytes.Repeat([]byte("0123456789"), 1<<18)
	stream, err := c.Conversations.Prompt(t.Context(), conv.ID, api.Prompt{Prompt: "look", Attachments: []api.PromptFile{{Name: "a.bin", Data: data}, {Name: "empty", Data: []byte{}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range stream.Events() {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := w.firstMessage(path, stream.TurnID).Attachments
	if len(got) != 2 || got[0].Size != int64(len(data)) || got[1].Size != 0 {
		t.Errorf("%+v", got)
	}
}

func TestBadAttachments(t *testing.T) {
	w := newTalksWithFiles(t, store.Options{DataDir: t.TempDir()})
	path, _ := w.new("")
	to := path + "/messages"
	file := api.PromptFile{Name: "a", Data: []byte("x")}
	many := make([]api.PromptFile, 21)
	for i := range many {
		many[i] = file
	}
	large := api.PromptFile{Name: "large.bin", Data: make([]byte, 10<<20+1)}
	half := api.PromptFile{Name: "half.bin", Data: make([]byte, 7<<20)}
	w.sendForm(to, "", []string{"prompt=x"}, many...).fails(api.CodeManyAttachments)
	w.sendForm(to, "", []string{"prompt=x"}, large).fails(api.CodeLargeAttachment)
	w.sendForm(to, "", []string{"prompt=x"}, half, half, half).fails(api.CodeLargeAttachment)
	w.sendForm(to, "", []string{"prompt=x"}, large, large, large, large).fails(api.CodeLargeAttachment)
	w.sendForm(to, "", nil, file).fails(api.CodeInvalidRequest)
	w.sendForm(to, "", []string{"prompt=x", "prompt=y"}, file).fails(api.CodeInvalidRequest)
	w.sendForm(to, "", []string{"prompt=x", "modle=y"}, file).fails(api.CodeInvalidRequest)
	w.sendForm(to, "", []string{"prompt=x", "model=a\tb"}, file).fails(api.CodeInvalidRequest)
	w.sendForm(to, "", []string{"prompt=x", "agent_id=" + strings.Repeat("a", 300)}, file).fails(api.CodeInvalidRequest)
	w.sendForm(to, "", []string{"prompt=x"}, api.PromptFile{Name: strings.Repeat("a", 256), Data: []byte("x")}).fails(api.CodeInvalidRequest)
	w.sendForm(to, "", []string{"prompt=x"}, api.PromptFile{Name: "a", MediaType: "no type", Data: []byte("x")}).fails(api.CodeInvalidRequest)
	for _, body := range []string{
		`{"prompt":"x","attachments":[{"name":"a","data":"*"}]}`,
		`{"prompt":"x","attachments":[{"name":"","data":""}]}`,
		`{"prompt":"x","attachments":[{"data":""}]}`,
		`{"prompt":"x","attachments":[{"name":"a"}]}`,
		`{"prompt":"x","attachments":[{"name":"a","data":1}]}`,
		`{"prompt":"x","attachments":[{"name":"a","data":"","path":"/etc"}]}`,
		`{"prompt":"x","attachments":{}}`,
		`{"prompt":"x","attachments":[{"name":"a","media_type":"x","data":""}]}`,
	} {
		w.post(to, body).fails(api.CodeInvalidRequest)
	}
	whole, contentType := form(t, []string{"prompt=x"}, file)
	for body, as := range map[string]string{
		whole[:len(whole)/2]: contentType, whole: "multipart/form-data", "": contentType, whole + "x": "multipart/form-data; boundary=y",
	} {
		w.do(call{method: http.MethodPost, path: to, key: w.admin, body: body, header: map[string]string{"Content-Type": as}}).fails(api.CodeInvalidRequest)
	}
	w.do(call{method: http.MethodPost, path: to, key: w.admin, body: whole, header: map[string]string{"Content-Type": "text/plain"}}).fails(api.CodeUnsupportedMedia)
	w.do(call{method: http.MethodPost, path: conversationsPath, key: w.admin, body: whole, header: map[string]string{"Content-Type": contentType}}).fails(api.CodeUnsupportedMedia)
	if got := into[api.List[api.Turn]](w.get(path + "/turns").is(http.StatusOK)); len(got.Items) != 0 {
		t.Errorf("refused prompts began %d turns", len(got.Items))
	}
	// A browser sends a nameless part for a file that was not chosen.
	turn := into[api.Turn](w.sendForm(to, "", []string{"prompt=x"}, api.PromptFile{}).is(http.StatusAccepted))
	if m := w.firstMessage(path, turn.ID); len(m.Attachments) != 0 {
		t.Errorf("%+v", m)
	}
}
