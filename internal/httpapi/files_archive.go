package httpapi

import (
	"bufio"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/files"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/danielgtaylor/huma/v2"
)

const tarType = "application/x-tar"

// addArchive adds the routes of folders as archives.
func (a *Handler) addArchive(op opMaker) {
	shared := slices.Clip([]func(*huma.Operation){inPath("id"),
		inQuery("source", "string", "Which root: working_dir, the default, or home_dir"),
		inQuery("path", "string", "Folder below the root; the root itself if left out")})

	pack := op(http.MethodGet, "/{id}/archive", "download-archive", api.ScopeRead, "Download a folder as a tar", append(finding, api.CodeTooLarge)...)
	pack.Description = "Links go in as links; pipes, sockets, devices, other users' files with further hard links and what cannot be read are left out. " +
		"The trailer Berth-Skipped tells how many, a comment at the archive's end which. The reserved folder .berth goes in with hidden=true only."
	pack.Timeout = fileTime
	a.serveRaw(pack, tarType, a.downloadArchive, append(shared, inQuery("hidden", "boolean", "The folder .berth, too"))...)

	unpack := op(http.MethodPut, "/{id}/archive", "upload-archive", api.ScopeWrite, "Upload a tar into a folder",
		append(changing, api.CodeNotEmpty, api.CodeInvalidArchive, api.CodeTooLarge)...)
	unpack.Description = "Replaces files that are there and leaves others. It stops, naming the entry, at the first that leads out of the folder or through a link, and at devices, pipes and hard links to anything but an earlier entry; what came before it stays."
	unpack.Timeout, unpack.Raw = fileTime, true
	a.serveRaw(unpack, "application/json", a.uploadArchive, append(shared, answers[api.Unpacked](a), tarBody)...)
}

func tarBody(o *huma.Operation) {
	anyBody(o)
	o.RequestBody.Content[tarType] = o.RequestBody.Content["application/octet-stream"]
	delete(o.RequestBody.Content, "application/octet-stream")
}

func (a *Handler) downloadArchive(w http.ResponseWriter, r *http.Request) {
	root, at, err := a.fileOf(r, r.URL.Query().Get("path"), "path", "hidden")
	if err != nil {
		fail(w, r, err)
		return
	}
	defer root.Close()
	hidden, err := flag(r, "hidden")
	if err == nil {
		// Looked at first: once the archive has begun, no problem can be told.
		_, err = root.ReadDir(r.Context(), at, "", 1)
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	name := path.Base(at)
	if at == "" {
		name = r.PathValue("id")
	}
	out := &archiveWriter{w: a.patient(w), name: name + ".tar"}
	if r.Method == http.MethodHead {
		out.begin()
		return
	}
	a.pack(out, r, root, files.PackOptions{Path: at, Hidden: hidden, MaxBytes: maxArchive})
}

// pack writes the archive. An error after it has begun cuts the connection: the client must see that it
// is not whole.
func (a *Handler) pack(out *archiveWriter, r *http.Request, root files.FS, o files.PackOptions) {
	x := exchangeOf(r.Context())
	buffered := bufio.NewWriterSize(out, 64<<10)
	packed, err := files.Pack(r.Context(), root, buffered, o)
	if err == nil {
		err = buffered.Flush()
	}
	switch {
	case err != nil && !out.begun:
		fail(out.w, r, err)
		return
	case err != nil:
		x.log.WarnContext(r.Context(), "archive cut off", "error", x.clean(err.Error()))
		panic(http.ErrAbortHandler)
	case packed.Skipped > 0:
		x.log.WarnContext(r.Context(), "files left out of an archive", "count", packed.Skipped, "first", packed.SkippedNames[0])
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
	h.Set("Content-Disposition", attachment(a.name))
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

func (a *Handler) uploadArchive(w http.ResponseWriter, r *http.Request) {
	body, err := a.upload(w, r)
	if err == nil {
		err = checkTar(r.Header.Get("Content-Type"))
	}
	if err != nil {
		a.failUpload(w, r, err)
		return
	}
	root, at, err := a.fileToChange(r, r.URL.Query().Get("path"), "path")
	if err != nil {
		a.failUpload(w, r, err)
		return
	}
	defer root.Close()
	got, err := files.Unpack(r.Context(), root, body, files.UnpackOptions{Path: at, MaxBytes: maxUpload})
	if err != nil {
		a.failUpload(w, r, err)
		return
	}
	writeJSON(a.patient(w), r, api.Unpacked(got))
}

// checkTar takes a missing type for a tar.
func checkTar(contentType string) error {
	if contentType == "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err == nil && slices.Contains([]string{tarType, "application/tar", "application/octet-stream"}, kind) {
		return nil
	}
	e := sandbox.Errorf("", api.CodeUnsupportedMedia, "the content type %q is not a tar", clip(contentType))
	e.Hint = "Send a plain tar with 'Content-Type: application/x-tar'."
	return e
}
