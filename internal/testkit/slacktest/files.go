package slacktest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// File is a file of a workspace.
type File struct {
	ID, Name, Title, Type string
	Content               []byte
	Encoding              string // the Content-Encoding of a download; empty: none
	size                  int
	uploaded, shared      bool
}

// AddFile makes a file that a person uploaded.
func (t *Team) AddFile(name, mimetype string, content []byte) (id string) {
	return t.AddFileAs(File{Name: name, Type: mimetype, Content: content}, len(content))
}

// AddFileAs makes a file that a person uploaded, which messages announce with any size.
func (t *Team) AddFileAs(f File, size int) (id string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	f.ID, f.Title, f.size, f.uploaded, f.shared = t.server.id("F"), f.Name, size, true, true
	t.files[f.ID] = &f
	return f.ID
}

// Files returns the files of the workspace by id.
func (t *Team) Files() map[string]File {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	all := map[string]File{}
	for id, f := range t.files {
		all[id] = *f
	}
	return all
}

func (t *Team) showFile(f *File) obj {
	at := t.server.URL + "/files-pri/" + t.ID + "-" + f.ID + "/download" // Slack puts a clean name here
	return obj{"id": f.ID, "name": f.Name, "title": f.Title, "mimetype": f.Type, "size": f.size, "mode": "hosted", "is_external": false, "url_private": at, "url_private_download": at}
}

func (t web) uploadURL(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	size, err := strconv.Atoi(a["length"])
	if a["filename"] == "" || err != nil || size <= 0 {
		return nil, "invalid_arguments"
	}
	f := &File{ID: t.server.id("F"), Name: a["filename"], Title: a["filename"], size: size}
	t.files[f.ID] = f
	return obj{"file_id": f.ID, "upload_url": t.server.URL + "/upload/v1/" + t.ID + "/" + f.ID}, ""
}

// serveUpload takes the content of a file, as it is or as the only file of a form.
func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		parts, err := r.MultipartReader()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for {
			part, err := parts.NextPart()
			if err != nil {
				http.Error(w, "no file in the form", http.StatusBadRequest)
				return
			}
			if part.FileName() != "" {
				body = part
				break
			}
		}
	}
	data, err := io.ReadAll(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.teams[r.PathValue("team")]
	if err != nil || t == nil || t.files[r.PathValue("file")] == nil {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	f := t.files[r.PathValue("file")]
	if len(data) != f.size {
		http.Error(w, "the length is another one", http.StatusBadRequest)
		return
	}
	f.Content, f.Type, f.uploaded = data, http.DetectContentType(data), true
	_, _ = io.WriteString(w, "OK - "+strconv.Itoa(len(data)))
}

// completeUpload shares uploaded files in a message. A second call shares them in a second message.
func (t web) completeUpload(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	var list []struct{ ID, Title string }
	if json.Unmarshal([]byte(a["files"]), &list) != nil || len(list) == 0 {
		return nil, "invalid_arguments"
	}
	var ids []string
	var shown []obj
	for _, l := range list {
		f := t.files[l.ID]
		if f == nil || !f.uploaded {
			return nil, "file_not_found"
		}
		ids = append(ids, f.ID)
	}
	for _, l := range list {
		f := t.files[l.ID]
		if l.Title != "" {
			f.Title = l.Title
		}
		shown = append(shown, t.showFile(f))
	}
	if a["channel_id"] != "" {
		a["channel"] = a["channel_id"]
		c, code := t.target(a)
		if code != "" {
			return nil, code
		}
		m, code := t.draft(c, a)
		if code != "" {
			return nil, code
		}
		m.Text, m.Files, m.Subtype = a["initial_comment"], ids, "file_share"
		t.add(c, m)
		for _, id := range ids {
			t.files[id].shared = true
		}
	}
	return obj{"files": shown}, ""
}

func (t web) fileInfo(a args) (obj, string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	f := t.files[a["file"]]
	if f == nil {
		return nil, "file_not_found"
	}
	return obj{"file": t.showFile(f)}, ""
}

// serveDownload answers a request without the right token with a page to log in, as Slack does.
func (s *Server) serveDownload(w http.ResponseWriter, r *http.Request) {
	team, id, _ := strings.Cut(r.PathValue("file"), "-")
	t, refused := s.authorize(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), false)
	if refused != "" || t.ID != team {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><title>Log in</title></html>")
		return
	}
	f, ok := t.Files()[id]
	if !ok || !f.uploaded {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.Type)
	if f.Encoding != "" {
		w.Header().Set("Content-Encoding", f.Encoding)
	}
	_, _ = w.Write(f.Content)
}
