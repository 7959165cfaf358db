package fleet_test

import (
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/berthdev/berth/api"
)

const (
	boxA = "aaaaaaaa-0000-0000-0000-000000000000"
	boxB = "bbbbbbbb-0000-0000-0000-000000000000"
)

// is is a record that fits itself.
func is(id, state, want string, incarnation int64) seen {
	s := seen{id: id, state: state, want: want, incarnation: incarnation}
	if state == "running" {
		s.instance = "fake-" + id + "." + string(rune('0'+incarnation)) + ".1"
	}
	return s
}

// asked is a request from call to ret.
func asked(call, ret int64, verb, id string, row seen) request {
	return request{verb: verb, id: id, call: call, ret: ret, row: row, done: verb == "delete"}
}

func madeBy(r request) request { r.made = true; return r }

func toldOf(r request, code api.Code) request { r.code, r.row, r.done = code, seen{}, false; return r }

// The model accepts what servers may do and nothing else.
func TestModelOfOneOwner(t *testing.T) {
	running, stopped, none := is(boxA, "running", "running", 1), is(boxA, "stopped", "stopped", 1), seen{}
	wrong := running
	wrong.instance = "fake-" + boxA + ".7.1"
	gone := is(boxA, "terminating", "gone", 1)
	gone.deleted = true
	make := madeBy(asked(0, 1, "ensure", "", running))
	for name, c := range map[string]struct {
		legal   bool
		history []request
	}{
		"made once":                        {true, []request{make, asked(2, 3, "ensure", "", running)}},
		"made twice":                       {false, []request{make, madeBy(asked(2, 3, "ensure", "", running))}},
		"there before it was made":         {false, []request{asked(0, 1, "ensure", "", running), madeBy(asked(2, 3, "ensure", "", running))}},
		"two at once for one owner":        {false, []request{make, asked(2, 3, "ensure", "", is(boxB, "running", "running", 1))}},
		"unknown after it was made":        {false, []request{make, toldOf(asked(2, 3, "get", "", none), api.CodeNotFound)}},
		"known id not found":               {false, []request{make, toldOf(asked(2, 3, "get", boxA, none), api.CodeNotFound)}},
		"running when it is not":           {false, []request{madeBy(asked(0, 1, "ensure", "", is(boxA, "creating", "running", 1)))}},
		"instance of another time":         {false, []request{make, asked(2, 3, "get", "", wrong)}},
		"stopped":                          {true, []request{make, asked(2, 3, "stop", boxA, stopped), asked(4, 5, "get", "", stopped)}},
		"stopped by nobody":                {false, []request{make, asked(2, 3, "get", "", stopped)}},
		"stop that did nothing":            {false, []request{make, asked(2, 3, "stop", boxA, running)}},
		"stop overtaken by a start":        {true, []request{make, toldOf(asked(2, 9, "stop", boxA, none), api.CodeBusy), asked(3, 8, "start", boxA, running)}},
		"stop overtaken and begun later":   {false, []request{make, toldOf(asked(2, 3, "stop", boxA, none), api.CodeBusy), asked(4, 5, "start", boxA, running), asked(6, 7, "get", "", is(boxA, "stopping", "running", 1))}},
		"stop seen before it is asked for": {false, []request{make, asked(2, 3, "get", "", stopped), asked(4, 5, "stop", boxA, stopped)}},
		"restarted":                        {true, []request{make, asked(2, 9, "restart", boxA, running), asked(3, 4, "get", "", stopped), asked(5, 6, "get", "", is(boxA, "starting", "running", 1))}},
		"restart that left it stopped":     {false, []request{make, asked(2, 3, "restart", boxA, running), asked(4, 5, "get", "", stopped)}},
		"terminated and revived":           {true, []request{make, asked(2, 3, "terminate", boxA, is(boxA, "terminated", "gone", 1)), asked(4, 5, "start", boxA, is(boxA, "running", "running", 2))}},
		"revived under the old number":     {false, []request{make, asked(2, 3, "terminate", boxA, is(boxA, "terminated", "gone", 1)), asked(4, 5, "start", boxA, running)}},
		"a number that goes back":          {false, []request{madeBy(asked(0, 1, "ensure", "", is(boxA, "running", "running", 3))), asked(2, 3, "get", "", running)}},
		"deleted for good":                 {true, []request{make, asked(2, 3, "delete", boxA, none), toldOf(asked(4, 5, "start", boxA, none), api.CodeDeleted), toldOf(asked(4, 5, "get", "", none), api.CodeNotFound)}},
		"answers a tombstone":              {false, []request{make, asked(2, 3, "delete", boxA, none), asked(4, 5, "ensure", "", running)}},
		"made again under the old id":      {false, []request{make, asked(2, 3, "delete", boxA, none), madeBy(asked(4, 5, "ensure", "", running))}},
		"another one after a delete":       {true, []request{make, asked(2, 3, "delete", boxA, none), madeBy(asked(4, 5, "ensure", "", is(boxB, "running", "running", 1)))}},
		"seen while it goes":               {true, []request{make, asked(2, 9, "delete", boxA, none), asked(3, 4, "get", boxA, gone), toldOf(asked(5, 6, "get", boxA, none), api.CodeDeleted)}},
		"seen after it is gone":            {false, []request{make, asked(2, 3, "delete", boxA, none), asked(4, 5, "get", boxA, gone)}},
		"deleted by nobody":                {false, []request{make, toldOf(asked(2, 3, "get", boxA, none), api.CodeDeleted)}},
		"wish before the delete":           {true, []request{make, toldOf(asked(2, 9, "stop", boxA, none), api.CodeDeleted), asked(3, 4, "get", "", is(boxA, "running", "stopped", 1)), asked(5, 9, "delete", boxA, none)}},
		"lost answer, had its effect":      {true, []request{toldOf(asked(0, 1, "ensure", "", none), api.CodeServerUnreachable), asked(2, 3, "get", "", running)}},
		"lost answer, later effect":        {true, []request{make, toldOf(asked(2, 3, "stop", boxA, none), api.CodeStoreUnavailable), asked(4, 5, "get", "", running), asked(6, 7, "get", "", stopped)}},
		"lost answer, no effect":           {true, []request{make, toldOf(asked(2, 3, "delete", boxA, none), api.CodeTimeout), asked(4, 5, "get", "", running)}},
		"lost delete, had its effect":      {true, []request{make, toldOf(asked(2, 3, "delete", boxA, none), api.CodeTimeout), toldOf(asked(4, 5, "get", "", none), api.CodeNotFound)}},
		"lost restart, half of it":         {true, []request{make, toldOf(asked(2, 3, "restart", boxA, none), api.CodeTimeout), asked(4, 5, "get", "", stopped)}},
		"failed answer has no late effect": {false, []request{make, toldOf(asked(2, 3, "stop", boxA, none), api.CodeBusy), asked(4, 5, "get", "", running), asked(6, 7, "get", "", stopped)}},
		"failed create":                    {true, []request{toldOf(asked(0, 1, "ensure", "", none), api.CodeDriverUnreachable), asked(2, 3, "get", "", is(boxA, "error", "running", 1)), asked(4, 5, "ensure", "", is(boxA, "running", "running", 5))}},
		"ensure under a delete": {true, []request{make, asked(2, 3, "stop", boxA, stopped), madeBy(asked(4, 9, "ensure", "", is(boxB, "running", "running", 1))),
			asked(5, 6, "get", "", is(boxA, "starting", "running", 1)), asked(7, 8, "delete", boxA, none)}},
		"what an ensure made is deleted": {true, []request{asked(0, 9, "ensure", "", is(boxB, "running", "running", 1)), asked(1, 2, "get", "", is(boxA, "pending", "running", 0)),
			asked(3, 4, "delete", boxA, none), madeBy(asked(5, 6, "ensure", "", is(boxB, "running", "running", 1)))}},
	} {
		slices.SortFunc(c.history, func(a, b request) int { return int(a.call - b.call) })
		if legal := porcupine.CheckOperations(lifecycle, movesOf(c.history)); legal != c.legal {
			t.Errorf("%s: legal is %v\n%v", name, legal, c.history)
		}
	}
}
