package sandboxfiles

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/httpapi/stream"
)

// addFile adds the routes of one file.
func (a *handlers) addFile(op access.OperationFunc) {
	const one = "/{id}/files/{path...}"
	source := rest.InQuery("source", "string", "The root: working_dir (default) or home_dir")

	read := op(http.MethodGet, one, "read-file", api.ScopeRead, "Read a file",
		append(readProblems, api.CodeIsADirectory, api.CodeSpecialFile, api.CodeInvalidRange, api.CodePrecondition)...)
	read.Description = "Returns the file's content, or the requested Range; If-None-Match, If-Match and If-Range take its ETag. " +
		"With stat=true it returns the metadata of the file, folder or link instead."
	read.Timeout = fileTime
	a.ServeRaw(read, "application/octet-stream", a.readFile, rest.InPath("id", "path"), source, rest.Answers[api.File](a.Spec),
		rest.InQuery("max_bytes", "integer", "Maximum number of bytes to return; the headers Berth-Truncated and Berth-File-Size report a longer file"),
		rest.InQuery("stat", "boolean", "Return the metadata instead of the content"))

	write := op(http.MethodPut, one, "write-file", api.ScopeWrite, "Write a file",
		append(changeProblems, api.CodePrecondition)...)
	write.Description = "The body is the file's new content. The file is replaced atomically, and missing folders are created. With 'If-None-Match: *' an existing file is not replaced."
	write.Timeout, write.Raw = fileTime, true
	write.Also = map[int]string{http.StatusCreated: "It is new"}
	a.ServeRaw(write, "application/json", a.writeFile, rest.InPath("id", "path"), source, rest.Answers[api.File](a.Spec), rest.AnyBody,
		rest.InQuery("mode", "string", "Permissions in octal, such as 755; default: the existing file's, or 644"))

	remove := op(http.MethodDelete, one, "delete-file", api.ScopeWrite, "Delete a file, a link or a folder",
		append(changeProblems, api.CodeNotEmpty)...)
	remove.Status = http.StatusNoContent
	a.ServeRaw(remove, "", a.deleteFile, rest.InPath("id", "path"), source, nothing,
		rest.InQuery("recursive", "boolean", "Delete a folder with its contents"))

	act := op(http.MethodPost, one, "act-on-file", api.ScopeWrite, "Create a folder, or move a file or folder", append(changeProblems, api.CodeNotEmpty)...)
	want := rest.NewBody[api.FileOperation](a.Spec, nil)
	a.ServeRaw(act, "application/json", a.actOnFile(want), rest.InPath("id", "path"), source, want.Document, rest.Answers[api.File](a.Spec))
}

// nothing documents an answer without a body.
func nothing(o *huma.Operation) {
	delete(o.Responses, "200")
	o.Responses["204"] = &huma.Response{Description: "Done"}
}

// fileOf opens the root that the request names for reading, and cleans the path.
func (a *handlers) fileOf(r *http.Request, name string, known ...string) (files.FS, string, error) {
	return a.fileBy(a.filesAt, r, name, known...)
}

// fileToChange is fileOf for requests that change files.
func (a *handlers) fileToChange(r *http.Request, name string, known ...string) (files.FS, string, error) {
	return a.fileBy(a.filesToChange, r, name, known...)
}

func (a *handlers) fileBy(open func(ctx context.Context, ref, source, name string) (files.FS, string, error), r *http.Request,
	name string, known ...string) (files.FS, string, error) {
	if err := rest.ReadQuery(r, append(known, "source")...); err != nil {
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
	return "", exchange.InvalidField("query.source", "expected working_dir or home_dir")
}

func (a *handlers) readFile(w http.ResponseWriter, r *http.Request) {
	root, at, err := a.fileOf(r, r.PathValue("path"), "max_bytes", "stat")
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	defer root.Close()
	stat, err := rest.Flag(r, "stat")
	most, err2 := rest.Number(r, "max_bytes", 1, 1<<50, 1<<50)
	switch {
	case err != nil || err2 != nil:
		exchange.Fail(w, r, errors.Join(err, err2))
	case stat:
		info, err := root.Stat(r.Context(), at)
		if err != nil {
			exchange.Fail(w, r, err)
			return
		}
		rest.WriteJSON(w, r, files.Show(info))
	default:
		a.serveFile(w, r, root, at, most)
	}
}

// serveFile answers with a file's content. Its headers keep browsers from showing or running it.
func (a *handlers) serveFile(w http.ResponseWriter, r *http.Request, root files.FS, at string, most int64) {
	f, err := root.Open(r.Context(), at)
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	defer f.Close()
	info := f.Info()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", rest.Attachment(path.Base(at)))
	h.Set("ETag", `"`+info.Tag+`"`)
	h.Set(api.HeaderFileSize, strconv.FormatInt(info.Size, 10))
	if info.Size > most {
		h.Set(api.HeaderTruncated, "true")
	}
	content := io.NewSectionReader(f, 0, min(info.Size, most))
	http.ServeContent(&problemWriter{stream.Progressing(w, a.TransferTimeout), r, false}, r, "", info.ModTime, content)
}

// problemWriter replaces the errors of http.ServeContent by problems.
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
	exchange.FailWith(p.ResponseWriter, p.r, code, detail)
}

func (p *problemWriter) Write(b []byte) (int, error) {
	if p.refused {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

func (a *handlers) writeFile(w http.ResponseWriter, r *http.Request) {
	body, err := a.upload(w, r)
	if err != nil {
		stream.FailUpload(w, r, err, a.TransferTimeout)
		return
	}
	opts, err := writeOptions(r)
	if err != nil {
		stream.FailUpload(w, r, err, a.TransferTimeout)
		return
	}
	root, at, err := a.fileToChange(r, r.PathValue("path"), "mode")
	if err != nil {
		stream.FailUpload(w, r, err, a.TransferTimeout)
		return
	}
	defer root.Close()
	info, created, err := root.Write(r.Context(), at, body, opts)
	if opts.New && fault.CodeOf(err) == api.CodeFileExists {
		err = fault.Errorf("write file", api.CodePrecondition, "%q is there already", at)
	}
	if err != nil {
		stream.FailUpload(w, r, err, a.TransferTimeout)
		return
	}
	w = stream.Progressing(w, a.TransferTimeout)
	out := files.Show(info)
	w.Header().Set("ETag", out.ETag)
	w.Header().Set("Content-Type", "application/json")
	if created {
		w.WriteHeader(http.StatusCreated)
	}
	rest.WriteJSON(w, r, out)
}

// writeOptions parses the options of a write. It refuses conditions that are not supported.
func writeOptions(r *http.Request) (o files.WriteOptions, err error) {
	for _, name := range []string{"If-Match", "If-Unmodified-Since", "If-Modified-Since", "Content-Range"} {
		if r.Header.Get(name) != "" {
			return o, fault.Errorf("", api.CodeInvalidRequest, "%s means nothing here; 'If-None-Match: *' does", name)
		}
	}
	switch r.Header.Get("If-None-Match") {
	case "":
	case "*":
		o.New = true
	default:
		return o, fault.Errorf("", api.CodeInvalidRequest, "If-None-Match may only be '*' here: write it unless it is there")
	}
	if text := r.URL.Query().Get("mode"); text != "" {
		mode, err := strconv.ParseUint(text, 8, 16)
		if err != nil || mode == 0 || mode > 0o777 {
			return o, exchange.InvalidField("query.mode", "expected permissions in octal, from 1 to 777")
		}
		o.Perm = fs.FileMode(mode)
	}
	return o, nil
}

func (a *handlers) deleteFile(w http.ResponseWriter, r *http.Request) {
	root, at, err := a.fileToChange(r, r.PathValue("path"), "recursive")
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	defer root.Close()
	recursive, err := rest.Flag(r, "recursive")
	if err == nil {
		err = root.Remove(r.Context(), at, recursive)
	}
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *handlers) actOnFile(body *rest.Body[api.FileOperation]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var want api.FileOperation
		if err == nil {
			want, err = body.Read(data)
		}
		if err != nil {
			exchange.Fail(w, r, err)
			return
		}
		root, at, err := a.fileToChange(r, r.PathValue("path"))
		if err != nil {
			exchange.Fail(w, r, err)
			return
		}
		defer root.Close()
		info, err := act(r, root, at, want)
		if err != nil {
			exchange.Fail(w, r, err)
			return
		}
		rest.WriteJSON(w, r, files.Show(info))
	}
}

// act does the requested operation and describes the result.
func act(r *http.Request, root files.FS, at string, want api.FileOperation) (files.Info, error) {
	ctx := r.Context()
	if want.Op == "mkdir" {
		if want.To != "" || want.Replace {
			return files.Info{}, exchange.InvalidField("body.to", "means nothing to mkdir")
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
		return files.Info{}, exchange.InvalidField("body.to", "expected the path to move it to")
	}
	if err := root.Rename(ctx, at, to, want.Replace); err != nil {
		return files.Info{}, err
	}
	return root.Stat(ctx, to)
}

// upload returns the body of a request that may be as large as a file. Each received byte extends the sender's time,
// so that a large body may take long, but a sender that is too slow is ended.
func (a *handlers) upload(w http.ResponseWriter, r *http.Request) (io.Reader, error) {
	exchange.Of(r.Context()).Body = r.Body
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, fault.Errorf("", api.CodeUnsupportedMedia, "the body is encoded as %q; send it as it is", exchange.Clip(enc))
	}
	if r.ContentLength > maxUpload {
		return nil, &http.MaxBytesError{Limit: maxUpload}
	}
	return stream.Upload(w, http.MaxBytesReader(w, r.Body, maxUpload), a.TransferTimeout), nil
}
