package sandboxfiles

import (
	"bufio"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/httpapi/stream"
)

const tarType = "application/x-tar"

// addArchive adds the routes of folders as archives.
func (a *handlers) addArchive(op access.OperationFunc) {
	shared := slices.Clip([]func(*huma.Operation){rest.InPath("id"),
		rest.InQuery("source", "string", "The root: working_dir (default) or home_dir"),
		rest.InQuery("path", "string", "A folder below the root; default: the root")})

	pack := op(http.MethodGet, "/{id}/archive", "download-archive", api.ScopeRead, "Download a folder as a tar archive", append(readProblems, api.CodeTooLarge)...)
	pack.Description = "Symbolic links are stored as links. Pipes, sockets, devices, unreadable files and other users' files with further hard links are skipped. " +
		"The trailer Berth-Skipped has their number, and a comment at the end of the archive their names. The reserved folder .berth is included only with hidden=true."
	pack.Timeout = fileTime
	a.ServeRaw(pack, tarType, a.downloadArchive, append(shared, rest.InQuery("hidden", "boolean", "Include the folder .berth"))...)

	unpack := op(http.MethodPut, "/{id}/archive", "upload-archive", api.ScopeWrite, "Extract a tar archive into a folder",
		append(changeProblems, api.CodeNotEmpty, api.CodeInvalidArchive, api.CodeTooLarge)...)
	unpack.Description = "Replaces existing files and leaves other files alone. It fails at the first entry that leads out of the folder or through a link, and at devices, pipes and hard links to anything but an earlier entry. Entries before that one stay extracted."
	unpack.Timeout, unpack.Raw = fileTime, true
	a.ServeRaw(unpack, "application/json", a.uploadArchive, append(shared, rest.Answers[api.Unpacked](a.Spec), tarBody)...)
}

func tarBody(o *huma.Operation) {
	rest.AnyBody(o)
	o.RequestBody.Content[tarType] = o.RequestBody.Content["application/octet-stream"]
	delete(o.RequestBody.Content, "application/octet-stream")
}

func (a *handlers) downloadArchive(w http.ResponseWriter, r *http.Request) {
	root, at, err := a.fileOf(r, r.URL.Query().Get("path"), "path", "hidden")
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	defer root.Close()
	hidden, err := rest.Flag(r, "hidden")
	if err == nil {
		// Checked first: once the archive has begun, no problem can be sent.
		_, err = root.ReadDir(r.Context(), at, "", 1)
	}
	if err != nil {
		exchange.Fail(w, r, err)
		return
	}
	name := path.Base(at)
	if at == "" {
		name = r.PathValue("id")
	}
	out := &archiveWriter{w: stream.Progressing(w, a.TransferTimeout), name: name + ".tar"}
	if r.Method == http.MethodHead {
		out.begin()
		return
	}
	a.pack(out, r, root, files.PackOptions{Path: at, Hidden: hidden, MaxBytes: maxArchive})
}

// pack writes the archive. An error after the first byte closes the connection, so that the client sees that the
// archive is incomplete.
func (a *handlers) pack(out *archiveWriter, r *http.Request, root files.FS, o files.PackOptions) {
	x := exchange.Of(r.Context())
	buffered := bufio.NewWriterSize(out, 64<<10)
	packed, err := files.Pack(r.Context(), root, buffered, o)
	if err == nil {
		err = buffered.Flush()
	}
	switch {
	case err != nil && !out.begun:
		exchange.Fail(out.w, r, err)
		return
	case err != nil:
		x.Log.WarnContext(r.Context(), "archive cut off", "error", x.Clean(err.Error()))
		panic(http.ErrAbortHandler)
	case packed.Skipped > 0:
		x.Log.WarnContext(r.Context(), "files left out of an archive", "count", packed.Skipped, "first", packed.SkippedNames[0])
	}
	out.w.Header().Set(api.HeaderSkipped, strconv.Itoa(packed.Skipped))
}

// archiveWriter begins the answer with the first byte of the archive.
type archiveWriter struct {
	w     http.ResponseWriter
	name  string
	begun bool
}

func (a *archiveWriter) begin() {
	h := a.w.Header()
	h.Set("Content-Type", tarType)
	h.Set("Content-Disposition", rest.Attachment(a.name))
	h.Set("Trailer", api.HeaderSkipped)
	a.w.WriteHeader(http.StatusOK)
	a.begun = true
}

func (a *archiveWriter) Write(b []byte) (int, error) {
	if !a.begun {
		a.begin()
	}
	return a.w.Write(b)
}

func (a *handlers) uploadArchive(w http.ResponseWriter, r *http.Request) {
	body, err := a.upload(w, r)
	if err == nil {
		err = checkTar(r.Header.Get("Content-Type"))
	}
	if err != nil {
		stream.FailUpload(w, r, err, a.TransferTimeout)
		return
	}
	root, at, err := a.fileToChange(r, r.URL.Query().Get("path"), "path")
	if err != nil {
		stream.FailUpload(w, r, err, a.TransferTimeout)
		return
	}
	defer root.Close()
	got, err := files.Unpack(r.Context(), root, body, files.UnpackOptions{Path: at, MaxBytes: maxUpload})
	if err != nil {
		stream.FailUpload(w, r, err, a.TransferTimeout)
		return
	}
	rest.WriteJSON(stream.Progressing(w, a.TransferTimeout), r, api.Unpacked(got))
}

// checkTar refuses content types that are not tar. A missing type counts as tar.
func checkTar(contentType string) error {
	if contentType == "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err == nil && slices.Contains([]string{tarType, "application/tar", "application/octet-stream"}, kind) {
		return nil
	}
	e := fault.Errorf("", api.CodeUnsupportedMedia, "the content type %q is not a tar", exchange.Clip(contentType))
	e.Hint = "Send a plain tar with 'Content-Type: application/x-tar'."
	return e
}
