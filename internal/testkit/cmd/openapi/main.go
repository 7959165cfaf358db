// Command openapi prints the OpenAPI document, from which the types of the console are generated.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/berthdev/berth/internal/engine"
	"github.com/berthdev/berth/internal/httpapi"
	"github.com/berthdev/berth/internal/store"
	"github.com/berthdev/berth/internal/template"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

// run makes a server over an empty database and asks it.
func run() error {
	dir, err := os.MkdirTemp("", "berth-openapi-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(context.Background(), store.Options{DataDir: dir})
	if err != nil {
		return err
	}
	defer db.Close()
	answer := httptest.NewRecorder()
	e := engine.New(engine.Options{Store: engine.OnDB(db), Templates: template.New(template.Options{})})
	httpapi.New(httpapi.Options{Engine: e, Store: db, Listen: "127.0.0.1:7070"}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7070/openapi.json", nil))
	if answer.Code != http.StatusOK {
		return fmt.Errorf("the server answered %d: %s", answer.Code, answer.Body)
	}
	_, err = os.Stdout.Write(answer.Body.Bytes())
	return err
}
