package cli

import (
	"encoding/json"
	"io"

	"github.com/berthdev/berth/api"
)

// shower is the one that fits how output is wanted.
func (f *frame) shower() shower {
	if f.json {
		return jsonTurn{f.out}
	}
	return f.newScreenTurn()
}

// jsonTurn prints each event as a line.
type jsonTurn struct{ out io.Writer }

func (j jsonTurn) event(e api.TurnEvent) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = io.WriteString(j.out, inert(string(data))+"\n")
	return err
}

func (j jsonTurn) waiting()     {}
func (j jsonTurn) note(string)  {}
func (j jsonTurn) close() error { return nil }
