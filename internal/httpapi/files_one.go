package httpapi

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/danielgtaylor/huma/v2"
)

// addFile adds the routes of one file.
func (a *Handler) addFile(op opMaker) {
	const one = "/{id}/files/{path...}"
	source := inQuery("source", "string", "Which root: working_dir, the default, or home_dir")

	read := op(http.MethodGet, one, "read-file", api.ScopeRead, "Read a file",
		append(finding, api.CodeIsADirectory, api.CodeSpecialFile, api.CodeInvalidRange, api.CodePrecondition)...)
	read.Description = "Answers with the file's bytes as they are, whole or the Range asked for; If-None-Match, If-Match and If-Range take its ETag. " +
		"With stat=true it answers with what is known of the file, folder or link instead."
	read.Timeout = fileTime
	a.serveRaw(read, "application/octet-stream", a.readFile, inPath("id", "path"), source, answers[api.File](a),
		inQuery("max_bytes", "integer", "Answer with so many bytes at most; Berth-Truncated tells whether there are more, and Berth-File-Size how many"),
		inQuery("stat", "boolean", "Describe it instead"))

	write := op(http.MethodPut, one, "write-file", api.ScopeWrite, "Write a file",
		append(changing, api.CodePrecondition)...)
	write.Description = "The body is the file's new content. Readers see the old file or the new one, never a part; missing folders are made. With 'If-None-Match: *' a file that is there stays as it is."
	write.Timeout, write.Raw = fileTime, true
	write.Also = map[int]string{http.StatusCreated: "It is new"}
	a.serveRaw(write, "application/json", a.writeFile, inPath("id", "path"), source, answers[api.File](a), anyBody,
		inQuery("mode", "string", "Permissions in octal, such as 755; those it had, or 644, if left out"))

	remove := op(http.MethodDelete, one, "delete-file", api.ScopeWrite, "Delete a file, a link or a folder",
		append(changing, api.CodeNotEmpty)...)
	remove.Status = http.StatusNoContent
	a.serveRaw(remove, "", a.deleteFile, inPath("id", "path"), source, nothing,
		inQuery("recursive", "boolean", "A folder with everything in it"))

	act := op(http.MethodPost, one, "act-on-file", api.ScopeWrite, "Make a folder, or move a file or folder", append(changing, api.CodeNotEmpty)...)
	want := newBody[api.FileOperation](a, nil)
	a.serveRaw(act, "application/json", a.actOnFile(want), inPath("id", "path"), source, want.document, answers[api.File](a))
}

// nothing documents an answer without a body.
func nothing(o *huma.Operation) {
	delete(o.Responses, "200")
	o.Responses["204"] = &huma.Response{Description: "Done"}
}

// fileOf opens the root that the request names, and cleans the path in it.
func (a *Handler) fileOf(r *http.Request, name string, known ...string) (files.FS, string, error) {
	return a.fileBy(a.filesAt, r, name, known...)
}

// fileToChange is fileOf for a change.
func (a *Handler) fileToChange(r *http.Request, name string, known ...string) (files.FS, string, error) {
	return a.fileBy(a.filesToChange, r, name, known...)
}

func (a *Handler) fileBy(open func(ctx context.Context, ref, source, name string) (files.FS, string, error), r *http.Request, name string, known ...string) (files.FS, string, error) {
	if err := readQuery(r, append(known, "source")...); err != nil {
		return nil, "", err
	}
	source, err := sourceOf(r)
	if err != nil {
		return nil, "", err
	}
	return open(r.Context(), r.PathValue("id"), source, name)
}

func sourceOf(r *http.Request) (string, error) {
	switch source := r.URL.Query().Get("source"); source {
	case "", files.WorkingDir:
		return files.WorkingDir, nil
	case files.HomeDir:
		return source, nil
	}
	return "", invalidField("query.source", "expected working_dir or home_dir")
}

// flag reads a yes or no out of the query; absent is no.
func flag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, invalidField("query."+name, "expected true or false")
	}
	return on, nil
}

func (a *Handler) readFile(w http.ResponseWriter, r *http.Request) {
	root, at, err := a.fileOf(r, r.PathValue("path"), "max_bytes", "stat")
	if err != nil {
		fail(w, r, err)
		return
	}
	defer root.Close()
	stat, err := flag(r, "stat")
	most, err2 := number(r, "max_bytes", 1, 1<<50, 1<<50)
	switch {
	case err != nil || err2 != nil:
		fail(w, r, errors.Join(err, err2))
	case stat:
		info, err := root.Stat(r.Context(), at)
		if err != nil {
			fail(w, r, err)
			return
		}
		writeJSON(w, r, fileOut(info))
	default:
		a.serveFile(w, r, root, at, most)
	}
}

// serveFile answers with a file's content. Whatever it holds, a browser shall neither show nor run it.
func (a *Handler) serveFile(w http.ResponseWriter, r *http.Request, root files.FS, at string, most int64) {
	f, err := root.Open(r.Context(), at)
	if err != nil {
		fail(w, r, err)
		return
	}
	defer f.Close()
	info := f.Info()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", attachment(path.Base(at)))
	h.Set("ETag", `"`+info.Tag+`"`)
	h.Set(api.HeaderFileSize, strconv.FormatInt(info.Size, 10))
	if info.Size > most {
		h.Set(api.HeaderTruncated, "true")
	}
	content := io.NewSectionReader(f, 0, min(info.Size, most))
	http.ServeContent(&problemWriter{a.patient(w), r, false}, r, "", info.ModTime, content)
}

// attachment tells a browser to save what it gets, under a name.
func attachment(name string) string {
	if text := mime.FormatMediaType("attachment", map[string]string{"filename": name}); text != "" {
		return text
	}
	return "attachment"
}

// problemWriter turns the refusals of http.ServeContent into problems.
type problemWriter struct {
	http.ResponseWriter
	r       *http.Request
	refused bool
}

func (p *problemWriter) WriteHeader(status int) {
	code, detail := api.CodePrecondition, "the file is not the one that If-Match or If-Unmodified-Since names"
	switch {
	case status < http.StatusBadRequest:
		p.ResponseWriter.WriteHeader(status)
		return
	case status == http.StatusRequestedRangeNotSatisfiable:
		code, detail = api.CodeInvalidRange, "the Range header asks for bytes that the file does not have"
	}
	p.refused = true
	p.Header().Del("Content-Disposition")
	failWith(p.ResponseWriter, p.r, code, detail)
}

func (p *problemWriter) Write(b []byte) (int, error) {
	if p.refused {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

func (a *Handler) writeFile(w http.ResponseWriter, r *http.Request) {
	body, err := a.upload(w, r)
	if err != nil {
		a.failUpload(w, r, err)
		return
	}
	opts, err := writeOptions(r)
	if err != nil {
		a.failUpload(w, r, err)
		return
	}
	root, at, err := a.fileToChange(r, r.PathValue("path"), "mode")
	if err != nil {
		a.failUpload(w, r, err)
		return
	}
	defer root.Close()
	info, created, err := root.Write(r.Context(), at, body, opts)
	if opts.New && sandbox.CodeOf(err) == api.CodeFileExists {
		err = sandbox.Errorf("write file", api.CodePrecondition, "%q is there already", at)
	}
	if err != nil {
		a.failUpload(w, r, err)
		return
	}
	w = a.patient(w)
	out := fileOut(info)
	w.Header().Set("ETag", out.ETag)
	w.Header().Set("Content-Type", "application/json")
	if created {
		w.WriteHeader(http.StatusCreated)
	}
	writeJSON(w, r, out)
}

// writeOptions reads how a file shall be written. A condition that could not be kept is refused.
func writeOptions(r *http.Request) (o files.WriteOptions, err error) {
	for _, name := range []string{"If-Match", "If-Unmodified-Since", "If-Modified-Since", "Content-Range"} {
		if r.Header.Get(name) != "" {
			return o, sandbox.Errorf("", api.CodeInvalidRequest, "%s means nothing here; 'If-None-Match: *' does", name)
		}
	}
	switch r.Header.Get("If-None-Match") {
	case "":
	case "*":
		o.New = true
	default:
		return o, sandbox.Errorf("", api.CodeInvalidRequest, "If-None-Match may only be '*' here: write it unless it is there")
	}
	if text := r.URL.Query().Get("mode"); text != "" {
		mode, err := strconv.ParseUint(text, 8, 16)
		if err != nil || mode == 0 || mode > 0o777 {
			return o, invalidField("query.mode", "expected permissions in octal, from 1 to 777")
		}
		o.Perm = fs.FileMode(mode)
	}
	return o, nil
}

func (a *Handler) deleteFile(w http.ResponseWriter, r *http.Request) {
	root, at, err := a.fileToChange(r, r.PathValue("path"), "recursive")
	if err != nil {
		fail(w, r, err)
		return
	}
	defer root.Close()
	recursive, err := flag(r, "recursive")
	if err == nil {
		err = root.Remove(r.Context(), at, recursive)
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *Handler) actOnFile(body *jsonBody[api.FileOperation]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var want api.FileOperation
		if err == nil {
			want, err = body.read(data)
		}
		if err != nil {
			fail(w, r, err)
			return
		}
		root, at, err := a.fileToChange(r, r.PathValue("path"))
		if err != nil {
			fail(w, r, err)
			return
		}
		defer root.Close()
		info, err := act(r, root, at, want)
		if err != nil {
			fail(w, r, err)
			return
		}
		writeJSON(w, r, fileOut(info))
	}
}

// act does what was asked for and describes what is there now.
func act(r *http.Request, root files.FS, at string, want api.FileOperation) (files.Info, error) {
	ctx := r.Context()
	if want.Op == "mkdir" {
		if want.To != "" || want.Replace {
			return files.Info{}, invalidField("body.to", "means nothing to mkdir")
		}
		if err := root.Mkdir(ctx, at); err != nil {
			return files.Info{}, err
		}
		return root.Stat(ctx, at)
	}
	to, err := files.Clean(want.To)
	switch {
	case err != nil:
		return files.Info{}, err
	case to == "":
		return files.Info{}, invalidField("body.to", "expected the path to move it to")
	}
	if err := root.Rename(ctx, at, to, want.Replace); err != nil {
		return files.Info{}, err
	}
	return root.Stat(ctx, to)
}

// transferTime is how long a transfer may make no progress.
const transferTime = time.Minute

// patient is w for a long answer: its reader has time anew with every piece.
func (a *Handler) patient(w http.ResponseWriter) http.ResponseWriter {
	p := patientWriter{w, a.transferTime}
	p.extend()
	return p
}

type patientWriter struct {
	http.ResponseWriter
	each time.Duration
}

func (p patientWriter) extend() {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.each)) // recorders have none
}

func (p patientWriter) Write(b []byte) (int, error) {
	p.extend()
	return p.ResponseWriter.Write(b)
}

func (p patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// upload is the body of a request that is as large as a file may be. Its sender has time anew with every
// piece.
func (a *Handler) upload(w http.ResponseWriter, r *http.Request) (io.Reader, error) {
	exchangeOf(r.Context()).body = r.Body
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, sandbox.Errorf("", api.CodeUnsupportedMedia, "the body is encoded as %q; send it as it is", clip(enc))
	}
	if r.ContentLength > maxUpload {
		return nil, &http.MaxBytesError{Limit: maxUpload}
	}
	return patientReader{http.MaxBytesReader(w, r.Body, maxUpload), patientWriter{w, a.transferTime}}, nil
}

type patientReader struct {
	io.Reader
	conn patientWriter
}

// Read gives the answer time, too: it comes after the body, however long that takes.
func (p patientReader) Read(b []byte) (int, error) {
	_ = http.NewResponseController(p.conn.ResponseWriter).SetReadDeadline(time.Now().Add(p.conn.each)) // recorders have none
	p.conn.extend()
	return p.Reader.Read(b)
}

// failUpload answers a request whose body may not have been read, in the way of refuseLargeBody.
func (a *Handler) failUpload(w http.ResponseWriter, r *http.Request, err error) {
	w = a.patient(w)
	var source *files.SourceError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuseLargeBody(w, r, large.Limit)
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = sandbox.Errorf("", api.CodeBodyTimeout, "the body stopped coming")
	case errors.As(err, &source):
		err = sandbox.Errorf("", api.CodeInvalidRequest, "the body broke off: %w", source.Err)
	}
	refuseBody(w, func() { fail(w, r, err) }, exchangeOf(r.Context()).body)
}

// refuseBody answers and then reads on for a while, so that a client which is still sending sees it.
func refuseBody(w http.ResponseWriter, answer func(), body io.Reader) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	w.Header().Set("Connection", "close")
	answer()
	_ = control.Flush()
	if control.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.CopyN(io.Discard, body, drainBytes)
	}
}
