package httpapi

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/berthdev/berth/internal/telemetry"
	"github.com/google/uuid"
)

const requestIDHeader = "X-Request-Id"

// identify gives the request an id: the caller's, where it is fit for a log line, else a new one. The
// answer carries it too.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !saneRequestID(id) {
			id = newID()
		}
		exchangeOf(r.Context()).id = id
		w.Header().Set(requestIDHeader, id)
		ctx := telemetry.With(r.Context(), slog.String(telemetry.FieldRequestID, id))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

const idAlphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:"

func saneRequestID(id string) bool {
	return id != "" && len(id) <= 128 && strings.Trim(id, idAlphabet) == "" // Trim: nothing but the alphabet
}

// newID makes an id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
