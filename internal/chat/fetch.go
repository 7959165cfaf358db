package chat

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/egress"
	"github.com/berthdev/berth/internal/fault"
)

// fetchTime limits the fetching of all attachments of a prompt.
const fetchTime = 30 * time.Second

// fetch returns the attachments with the content of those that are given by their URL. The URLs come from users, so
// only public addresses are connected to and redirects are not followed; see [egress.DialPublic].
func (s *Service) fetch(ctx context.Context, sent []api.PromptFile) ([]api.PromptFile, error) {
	if !slices.ContainsFunc(sent, func(f api.PromptFile) bool { return f.URL != "" }) {
		return sent, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTime, fmt.Errorf("the attachments took longer than %s", fetchTime))
	defer cancel()
	dial := s.opts.Dial
	if dial == nil {
		dial = egress.DialPublic
	}
	web := &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 32 << 10}, // without a proxy, which could connect to private addresses
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	files, left := slices.Clone(sent), s.opts.Attachments.Prompt
	for i, f := range files {
		if f.URL != "" {
			var err error
			if files[i], err = fetchOne(ctx, web, f, min(s.opts.Attachments.File, left)); err != nil {
				return nil, err
			}
		}
		left = max(0, left-int64(len(files[i].Data)))
	}
	return files, nil
}

// fetchOne fetches one attachment of at most limit bytes.
func fetchOne(ctx context.Context, web *http.Client, f api.PromptFile, limit int64) (api.PromptFile, error) {
	const op = "fetch attachment"
	name := shownName(f.Name)
	if len(f.Data) > 0 {
		return f, fault.Errorf(op, api.CodeInvalidRequest, "%s has both data and url; give one of them", name)
	}
	at, err := url.Parse(f.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" || at.User != nil {
		return f, fault.Errorf(op, api.CodeInvalidRequest, "the url of %s is not of the form https://host/path", name)
	}
	failed := func(err error) (api.PromptFile, error) {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return f, fault.Errorf(op, api.CodeAttachmentFetch, "%s could not be read from %s: %w", name, at.Host, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return failed(err)
	}
	answer, err := web.Do(request)
	if err != nil {
		return failed(withoutURL(err))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return failed(fmt.Errorf("the server answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode)))
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	if err != nil {
		return failed(err)
	}
	if int64(len(data)) > limit {
		return f, fault.Errorf(op, api.CodeLargeAttachment, "%s has more than %d bytes, and so many are left for it", name, limit)
	}
	if kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); f.MediaType == "" && err == nil && mediaTypes.MatchString(kind) {
		f.MediaType = kind
	}
	f.Data = data
	return f, nil
}

// withoutURL removes the URL from an error of an HTTP client: it may hold a key.
func withoutURL(err error) error {
	if wrapped, ok := err.(*url.Error); ok {
		return wrapped.Err
	}
	return err
}
