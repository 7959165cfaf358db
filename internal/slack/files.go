package slack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode"

	slackgo "github.com/slack-go/slack"

	"github.com/berthdev/berth/api"
)

// fetchAll downloads the attachments of a message. Those that the agent does not get are named with the reasons.
func (a *answer) fetchAll(ctx context.Context, all []file) (files []api.PromptFile, dropped []string, err error) {
	left := a.opts.MaxAll
	for i, f := range all {
		name := clip(shownName(f.Name), 100)
		switch {
		case i >= a.opts.MaxFiles:
			dropped = append(dropped, fmt.Sprintf("%s (at most %d files)", name, a.opts.MaxFiles))
			continue
		case f.Size > a.opts.MaxFile:
			dropped = append(dropped, fmt.Sprintf("%s (larger than %d MiB)", name, a.opts.MaxFile>>20))
			continue
		case f.Size > left:
			dropped = append(dropped, fmt.Sprintf("%s (all files together are larger than %d MiB)", name, a.opts.MaxAll>>20))
			continue
		case f.URL == "" || f.Mode == "external" || f.Mode == "tombstone" || f.Mode == "hidden_by_limit":
			dropped = append(dropped, name+" (Slack does not have its content)")
			continue
		}
		data, err := a.fetch(ctx, f)
		if ctx.Err() != nil {
			return nil, nil, err
		}
		if err != nil {
			a.opts.Log.WarnContext(ctx, "read attachment from Slack", "reply", a.r.ID, "file", f.ID, "error", err)
			dropped = append(dropped, name+" (it could not be read from Slack)")
			continue
		}
		left -= int64(len(data))
		files = append(files, api.PromptFile{Name: first(f.Name, f.ID), Data: data})
	}
	return files, dropped, nil
}

// shownName returns a file's name in one line of characters that can be seen: others could change how the text around
// it is read.
func shownName(name string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '_'
		}
		return c
	}, oneLine(name))
}

var errOtherSize = errors.New("the file has another size than Slack said; the app may lack the scope files:read")

// fetch downloads a file, and no more of it than its size. To a token that may not have it, Slack shows a page to log in.
func (a *answer) fetch(ctx context.Context, f file) (data []byte, err error) {
	for n := 0; ; n++ {
		buffer := &limited{left: f.Size}
		err = once(ctx, func(ctx context.Context) error { return a.web.GetFileContext(ctx, f.URL, buffer) })
		switch {
		case err == nil && int64(buffer.Len()) != f.Size:
			return nil, errOtherSize
		case err == nil:
			return buffer.Bytes(), nil
		case errors.Is(err, errOtherSize) || n == 3:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second << n):
		}
	}
}

// limited is a buffer that refuses to grow beyond a limit.
type limited struct {
	bytes.Buffer
	left int64
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, errOtherSize
	}
	return l.Buffer.Write(p)
}

// maxUpload is the greatest size of a file that is uploaded. It is held in memory.
const maxUpload = 32 << 20

// upload shares a file that the turn has made in the thread, once. It returns a text for people if the file cannot be
// uploaded.
func (a *answer) upload(ctx context.Context, f api.Artifact) (problem string, err error) {
	key := f.Path + " " + f.SHA256
	u := a.p.Uploads[key]
	if u.Done {
		return "", nil
	}
	name := clip(shownName(path.Base(f.Path)), 200)
	switch {
	case f.Size == 0:
		return name + " (it is empty)", nil
	case f.Size > maxUpload:
		return fmt.Sprintf("%s (%d MiB; at most %d)", name, f.Size>>20, maxUpload>>20), nil
	}
	if u.File != "" { // it may be shared already
		if done, err := a.isShared(ctx, u.File); err != nil || done {
			return "", errors.Join(err, a.shared(ctx, key, u, done))
		}
	}
	data, err := a.read(ctx, f)
	if err != nil {
		if passes(err) || ctx.Err() != nil {
			return "", err
		}
		return name + " (" + err.Error() + ")", nil
	}
	if u.File, err = a.send(ctx, name, data); err != nil {
		if errorCode(err) != "" && !isLost(err) {
			return name + " (Slack: " + errorCode(err) + ")", nil
		}
		return "", err
	}
	if err := a.shared(ctx, key, u, false); err != nil {
		return "", err
	}
	a.at("slack-uploading", a.r.ID)
	return "", a.share(ctx, key, u, name)
}

// shared records how far an upload is.
func (a *answer) shared(ctx context.Context, key string, u upload, done bool) error {
	if a.p.Uploads == nil {
		a.p.Uploads = map[string]upload{}
	}
	u.Done = done
	a.p.Uploads[key] = u
	return a.save(ctx)
}

func (a *answer) read(ctx context.Context, f api.Artifact) ([]byte, error) {
	r, err := a.opts.Threads.Open(ctx, a.thread(), f.Path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxUpload+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) == 0:
		return nil, errors.New("it is empty now")
	case len(data) > maxUpload:
		return nil, errors.New("it has grown")
	}
	return data, nil
}

// send uploads a file. It is not visible before it is shared, so that this can be repeated.
func (a *answer) send(ctx context.Context, name string, data []byte) (id string, err error) {
	err = a.try(ctx, func(ctx context.Context) error {
		to, err := a.web.GetUploadURLExternalContext(ctx, slackgo.GetUploadURLExternalParameters{FileName: name, FileSize: len(data)})
		if err != nil {
			return err
		}
		id = to.FileID
		return a.web.UploadToURL(ctx, slackgo.UploadToURLParameters{UploadURL: to.UploadURL, Reader: bytes.NewReader(data), Filename: name})
	})
	return id, err
}

// share posts an uploaded file in the thread. It is not repeated before the file was looked for there.
func (a *answer) share(ctx context.Context, key string, u upload, name string) error {
	for {
		err := once(ctx, func(ctx context.Context) error {
			_, err := a.web.CompleteUploadExternalContext(ctx, slackgo.CompleteUploadExternalParameters{
				Files: []slackgo.FileSummary{{ID: u.File, Title: name}}, Channel: a.r.Channel, ThreadTimestamp: a.r.ThreadTS,
			})
			return err
		})
		if err == nil {
			a.at("slack-uploaded", a.r.ID)
			return a.shared(ctx, key, u, true)
		}
		wait, again := pauseAfter(err, afterLost)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
		if !isUncertain(err) {
			continue
		}
		if done, err := a.isShared(ctx, u.File); err != nil || done {
			return errors.Join(err, a.shared(ctx, key, u, done))
		}
	}
}

// isShared reports whether a file is in the thread.
func (a *answer) isShared(ctx context.Context, file string) (bool, error) {
	ts, err := a.find(ctx, func(m slackgo.Message) bool {
		for _, f := range m.Files {
			if f.ID == file {
				return true
			}
		}
		return false
	})
	return ts != "", err
}

// personSeen is what Slack said about a person.
type personSeen struct {
	user User
	at   time.Time
}

const personTime = 10 * time.Minute

// person returns what Slack says about a person; without the scope for it, the id alone.
func (s *Service) person(ctx context.Context, w storeWorkspace, id string) User {
	key := [2]string{w.Team, id}
	s.mu.Lock()
	known, ok := s.people[key]
	s.mu.Unlock()
	if ok && time.Since(known.at) < personTime {
		return known.user
	}
	u := User{ID: id}
	found, err := s.api(w).GetUserInfoContext(ctx, id)
	if err != nil {
		s.opts.Log.DebugContext(ctx, "look up a person in Slack", "team", w.Team, "user", id, "error", err)
		return u
	}
	u.Name, u.Email = first(found.Profile.DisplayName, found.RealName), strings.ToLower(found.Profile.Email)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.people) > 10_000 {
		clear(s.people)
	}
	s.people[key] = personSeen{u, time.Now()}
	return u
}
