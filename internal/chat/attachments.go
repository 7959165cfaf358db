package chat

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/agent"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/guest"
	"github.com/berthdev/berth/internal/store"
)

// AttachmentLimits bound the attachments of prompts. Zero fields have defaults.
type AttachmentLimits struct {
	Count   int   // of one prompt
	File    int64 // bytes of one attachment
	Prompt  int64 // bytes of all attachments of a prompt
	Waiting int64 // bytes of all attachments of a tenant's unfinished turns
}

// DefaultAttachments are the default limits.
var DefaultAttachments = AttachmentLimits{Count: 20, File: 10 << 20, Prompt: 20 << 20, Waiting: 1 << 30}

// orDefault returns the limits with defaults for zero fields.
func (l AttachmentLimits) orDefault() AttachmentLimits {
	d := DefaultAttachments
	return AttachmentLimits{cmp.Or(l.Count, d.Count), cmp.Or(l.File, d.File), cmp.Or(l.Prompt, d.Prompt), cmp.Or(l.Waiting, d.Waiting)}
}

// AttachmentLimits returns the limits of the attachments of prompts.
func (s *Service) AttachmentLimits() AttachmentLimits { return s.opts.Attachments }

// AttachmentDir is the directory in the workspace with the attachments of all turns, each turn's in a directory that
// is named after the turn.
const AttachmentDir = "attachments"

// filesOf checks the attachments of a prompt and gives them their paths.
func (l AttachmentLimits) filesOf(turn string, sent []api.PromptFile) ([]store.PromptFile, error) {
	if err := l.check(sent); err != nil {
		return nil, err
	}
	files, taken := make([]store.PromptFile, len(sent)), map[string]bool{}
	for i, f := range sent {
		kind, err := mediaType(f)
		if err != nil {
			return nil, err
		}
		if f.Data == nil {
			f.Data = []byte{} // nil would be null in the database
		}
		files[i] = store.PromptFile{
			Name: shownName(f.Name), MediaType: kind, Size: int64(len(f.Data)), Data: f.Data,
			Path: path.Join(AttachmentDir, strings.ToLower(turn), freeName(safeName(f.Name), taken)),
		}
	}
	return files, nil
}

func (l AttachmentLimits) check(sent []api.PromptFile) error {
	const op = "check attachments"
	if len(sent) > l.Count {
		return fault.Errorf(op, api.CodeManyAttachments, "the prompt has %d attachments; it may have %d", len(sent), l.Count)
	}
	sum := int64(0)
	for _, f := range sent {
		size := int64(len(f.Data))
		if size > l.File {
			return fault.Errorf(op, api.CodeLargeAttachment, "%s has %d bytes; one attachment may have %d", shownName(f.Name), size, l.File)
		}
		sum += size
	}
	if sum > l.Prompt {
		return fault.Errorf(op, api.CodeLargeAttachment, "the attachments have %d bytes together; those of a prompt may have %d", sum, l.Prompt)
	}
	return nil
}

// mediaTypes matches media types by the rules of RFC 6838.
var mediaTypes = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}$`)

// mediaType returns the media type of a file. The content decides whether it is an image that models accept: an agent
// that is given something else as an image may refuse all later turns of its session.
func mediaType(f api.PromptFile) (string, error) {
	const unknown, text = "application/octet-stream", "text/plain"
	given := ""
	if f.MediaType != "" {
		var err error
		if given, _, err = mime.ParseMediaType(f.MediaType); err != nil || !mediaTypes.MatchString(given) {
			return "", fault.Errorf("check attachments", api.CodeInvalidRequest, "%s: %q is no media type; leave it out, or write one such as text/csv", shownName(f.Name), f.MediaType)
		}
	}
	found, _, _ := mime.ParseMediaType(http.DetectContentType(f.Data))
	switch {
	case agent.IsImage(found):
		return found, nil
	case given != "" && given != unknown && !agent.IsImage(given):
		return given, nil
	case found != unknown && found != text:
		return found, nil
	}
	byName, _, _ := mime.ParseMediaType(mime.TypeByExtension(path.Ext(f.Name)))
	if agent.IsImage(byName) {
		byName = ""
	}
	return cmp.Or(byName, found), nil
}

const (
	maxShownName = 255 // bytes
	maxSafeName  = 100
	maxExtension = 16
)

// shownName returns a name without directories and without characters that a terminal interprets.
func shownName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name, _ = agent.Clip(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_")), maxShownName)
	return cmp.Or(strings.TrimSpace(name), "file")
}

// safeName returns the name of the file in the sandbox. It has letters, digits and ._-+=@,~ only, so that a shell takes
// the path as one word, and it does not begin with a dot, which would hide the file or give it a meaning for a tool.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Letter, unicode.Mark, unicode.Digit) || strings.ContainsRune("._-+=@,~", r) {
			return r
		}
		return '_'
	}, shownName(name))
	name = strings.TrimLeft(name, ".-~=")
	ext := path.Ext(name)
	if len(ext) > maxExtension {
		ext = ""
	}
	stem, _ := agent.Clip(strings.TrimSuffix(name, ext), maxSafeName-len(ext))
	return cmp.Or(stem, "file") + ext
}

// freeName returns the name, with a number if it is taken, and marks it as taken. Upper and lower case count as the
// same: the files may be copied to a machine that does not tell them apart.
func freeName(name string, taken map[string]bool) string {
	ext := path.Ext(name)
	free := name
	for n := 2; taken[strings.ToLower(free)]; n++ {
		free = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
	}
	taken[strings.ToLower(free)] = true
	return free
}

// attachments returns the files of a turn for the API.
func attachments(t store.Turn) []api.Attachment {
	var out []api.Attachment
	for _, f := range t.Files {
		out = append(out, api.Attachment{Name: f.Name, MediaType: f.MediaType, Size: f.Size, Path: f.Path})
	}
	return out
}

// inSandbox returns the files of a turn for the agent.
func inSandbox(t store.Turn) []agent.Attachment {
	var out []agent.Attachment
	for _, f := range t.Files {
		out = append(out, agent.Attachment{
			Name: f.Name, Path: guest.Workspace + "/" + f.Path, MediaType: f.MediaType, Size: f.Size,
			Inline: agent.IsImage(f.MediaType) && f.Size <= agent.MaxInline,
		})
	}
	return out
}
