package stream

import (
	"net/http"
	"time"
)

// Progressing returns w for a long answer: each write gives the client the given time to read it.
func Progressing(w http.ResponseWriter, each time.Duration) http.ResponseWriter {
	p := progressWriter{w, each}
	p.extend()
	return p
}

// progressWriter extends the write deadline with each write.
type progressWriter struct {
	http.ResponseWriter
	each time.Duration
}

func (p progressWriter) extend() {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.each)) // response recorders of tests have no deadlines
}

func (p progressWriter) Write(b []byte) (int, error) {
	p.extend()
	return p.ResponseWriter.Write(b)
}

func (p progressWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
