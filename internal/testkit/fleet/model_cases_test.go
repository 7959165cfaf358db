package fleet_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	boxA = "aaaaaaaa-0000-0000-0000-000000000000"
	boxB = "bbbbbbbb-0000-0000-0000-000000000000"
)

// recordOf returns a consistent record.
func recordOf(id, state, want string, incarnation int64) seen {
	s := seen{id: id, state: state, want: want, incarnation: incarnation}
	if state == "running" {
		s.instance = "fake-" + id + "." + string(rune('0'+incarnation)) + ".1"
	}
	return s
}

// newRequest returns a request with its call, return and answer.
func newRequest(call, ret int64, verb, id string, row seen) request {
	return request{verb: verb, id: id, call: call, ret: ret, row: row, done: verb == "delete"}
}

func madeBy(r request) request { r.made = true; return r }

func inOrder(history []request) {
	slices.SortStableFunc(history, func(a, b request) int { return cmp.Compare(a.call, b.call) })
}

func withError(r request, code api.Code) request {
	r.code, r.row, r.done = code, seen{}, false
	return r
}

// The model accepts all histories that servers may cause and no others.
func TestModelOfOneOwner(t *testing.T) {
	running, stopped, none := recordOf(boxA, "running", "running", 1), recordOf(boxA, "stopped", "stopped", 1), seen{}
	wrong := running
	wrong.instance = "fake-" + boxA + ".7.1"
	gone := recordOf(boxA, "terminating", "gone", 1)
	gone.deleted = true
	make := madeBy(newRequest(0, 1, "ensure", "", running))
	for name, c := range map[string]struct {
		legal   bool
		history []request
	}{
		"made once":                        {true, []request{make, newRequest(2, 3, "ensure", "", running)}},
		"made twice":                       {false, []request{make, madeBy(newRequest(2, 3, "ensure", "", running))}},
		"there before it was made":         {false, []request{newRequest(0, 1, "ensure", "", running), madeBy(newRequest(2, 3, "ensure", "", running))}},
		"two at once for one owner":        {false, []request{make, newRequest(2, 3, "ensure", "", recordOf(boxB, "running", "running", 1))}},
		"unknown after it was made":        {false, []request{make, withError(newRequest(2, 3, "get", "", none), api.CodeNotFound)}},
		"known id not found":               {false, []request{make, withError(newRequest(2, 3, "get", boxA, none), api.CodeNotFound)}},
		"running when it is not":           {false, []request{madeBy(newRequest(0, 1, "ensure", "", recordOf(boxA, "creating", "running", 1)))}},
		"instance of another time":         {false, []request{make, newRequest(2, 3, "get", "", wrong)}},
		"stopped":                          {true, []request{make, newRequest(2, 3, "stop", boxA, stopped), newRequest(4, 5, "get", "", stopped)}},
		"stopped by nobody":                {false, []request{make, newRequest(2, 3, "get", "", stopped)}},
		"stop that did nothing":            {false, []request{make, newRequest(2, 3, "stop", boxA, running)}},
		"stop overtaken by a start":        {true, []request{make, withError(newRequest(2, 9, "stop", boxA, none), api.CodeBusy), newRequest(3, 8, "start", boxA, running)}},
		"stop overtaken and begun later":   {false, []request{make, withError(newRequest(2, 3, "stop", boxA, none), api.CodeBusy), newRequest(4, 5, "start", boxA, running), newRequest(6, 7, "get", "", recordOf(boxA, "stopping", "running", 1))}},
		"stop seen before it is asked for": {false, []request{make, newRequest(2, 3, "get", "", stopped), newRequest(4, 5, "stop", boxA, stopped)}},
		"restarted":                        {true, []request{make, newRequest(2, 9, "restart", boxA, running), newRequest(3, 4, "get", "", stopped), newRequest(5, 6, "get", "", recordOf(boxA, "starting", "running", 1))}},
		"restart that left it stopped":     {false, []request{make, newRequest(2, 3, "restart", boxA, running), newRequest(4, 5, "get", "", stopped)}},
		"terminated and revived":           {true, []request{make, newRequest(2, 3, "terminate", boxA, recordOf(boxA, "terminated", "gone", 1)), newRequest(4, 5, "start", boxA, recordOf(boxA, "running", "running", 2))}},
		"revived under the old number":     {false, []request{make, newRequest(2, 3, "terminate", boxA, recordOf(boxA, "terminated", "gone", 1)), newRequest(4, 5, "start", boxA, running)}},
		"a number that goes back":          {false, []request{madeBy(newRequest(0, 1, "ensure", "", recordOf(boxA, "running", "running", 3))), newRequest(2, 3, "get", "", running)}},
		"deleted for good":                 {true, []request{make, newRequest(2, 3, "delete", boxA, none), withError(newRequest(4, 5, "start", boxA, none), api.CodeDeleted), withError(newRequest(4, 5, "get", "", none), api.CodeNotFound)}},
		"answers a tombstone":              {false, []request{make, newRequest(2, 3, "delete", boxA, none), newRequest(4, 5, "ensure", "", running)}},
		"made again under the old id":      {false, []request{make, newRequest(2, 3, "delete", boxA, none), madeBy(newRequest(4, 5, "ensure", "", running))}},
		"another one after a delete":       {true, []request{make, newRequest(2, 3, "delete", boxA, none), madeBy(newRequest(4, 5, "ensure", "", recordOf(boxB, "running", "running", 1)))}},
		"seen while it goes":               {true, []request{make, newRequest(2, 9, "delete", boxA, none), newRequest(3, 4, "get", boxA, gone), withError(newRequest(5, 6, "get", boxA, none), api.CodeDeleted)}},
		"seen after it is gone":            {false, []request{make, newRequest(2, 3, "delete", boxA, none), newRequest(4, 5, "get", boxA, gone)}},
		"seen after the next was made":     {false, []request{make, newRequest(2, 20, "delete", boxA, none), madeBy(newRequest(3, 4, "ensure", "", recordOf(boxB, "running", "running", 1))), newRequest(5, 6, "get", boxA, gone)}},
		"seen by name while it goes":       {true, []request{make, newRequest(2, 9, "delete", boxA, none), newRequest(3, 4, "get", "", gone), withError(newRequest(5, 6, "get", "", none), api.CodeNotFound)}},
		"seen after the name was free":     {false, []request{make, newRequest(2, 20, "delete", boxA, none), withError(newRequest(3, 4, "get", "", none), api.CodeNotFound), newRequest(5, 6, "get", boxA, gone)}},
		"told to wait for a delete":        {true, []request{make, newRequest(2, 9, "delete", boxA, none), withError(newRequest(3, 4, "ensure", "", none), api.CodeDeleting), newRequest(5, 6, "get", boxA, gone)}},
		"deleted by nobody":                {false, []request{make, withError(newRequest(2, 3, "get", boxA, none), api.CodeDeleted)}},
		"wish before the delete":           {true, []request{make, withError(newRequest(2, 9, "stop", boxA, none), api.CodeDeleted), newRequest(3, 4, "get", "", recordOf(boxA, "running", "stopped", 1)), newRequest(5, 9, "delete", boxA, none)}},
		"lost answer, had its effect":      {true, []request{withError(newRequest(0, 1, "ensure", "", none), api.CodeServerUnreachable), newRequest(2, 3, "get", "", running)}},
		"lost answer, later effect":        {true, []request{make, withError(newRequest(2, 3, "stop", boxA, none), api.CodeStoreUnavailable), newRequest(4, 5, "get", "", running), newRequest(6, 7, "get", "", stopped)}},
		"lost answer, no effect":           {true, []request{make, withError(newRequest(2, 3, "delete", boxA, none), api.CodeTimeout), newRequest(4, 5, "get", "", running)}},
		"lost delete, had its effect":      {true, []request{make, withError(newRequest(2, 3, "delete", boxA, none), api.CodeTimeout), withError(newRequest(4, 5, "get", "", none), api.CodeNotFound)}},
		"lost restart, half of it":         {true, []request{make, withError(newRequest(2, 3, "restart", boxA, none), api.CodeTimeout), newRequest(4, 5, "get", "", stopped)}},
		"failed answer has no late effect": {false, []request{make, withError(newRequest(2, 3, "stop", boxA, none), api.CodeBusy), newRequest(4, 5, "get", "", running), newRequest(6, 7, "get", "", stopped)}},
		"failed create":                    {true, []request{withError(newRequest(0, 1, "ensure", "", none), api.CodeDriverUnreachable), newRequest(2, 3, "get", "", recordOf(boxA, "error", "running", 1)), newRequest(4, 5, "ensure", "", recordOf(boxA, "running", "running", 5))}},
		"ensure under a delete": {true, []request{make, newRequest(2, 3, "stop", boxA, stopped), madeBy(newRequest(4, 9, "ensure", "", recordOf(boxB, "running", "running", 1))),
			newRequest(5, 6, "get", "", recordOf(boxA, "starting", "running", 1)), newRequest(7, 8, "delete", boxA, none)}},
		"what an ensure made is deleted": {true, []request{newRequest(0, 9, "ensure", "", recordOf(boxB, "running", "running", 1)), newRequest(1, 2, "get", "", recordOf(boxA, "pending", "running", 0)),
			newRequest(3, 4, "delete", boxA, none), madeBy(newRequest(5, 6, "ensure", "", recordOf(boxB, "running", "running", 1)))}},
		"deleted twice":             {true, []request{make, newRequest(2, 3, "delete", boxA, none), newRequest(4, 5, "delete", boxA, none)}},
		"lost wish, deleted since":  {true, []request{make, withError(newRequest(2, 3, "stop", boxA, none), api.CodeTimeout), newRequest(4, 5, "delete", boxA, none), withError(newRequest(6, 7, "get", boxA, none), api.CodeDeleted)}},
		"lost delete, later effect": {true, []request{make, withError(newRequest(2, 3, "delete", boxA, none), api.CodeTimeout), newRequest(4, 5, "get", "", running), withError(newRequest(6, 7, "get", "", none), api.CodeNotFound)}},
		"lost delete, later effect than one that failed": {true, []request{make, withError(newRequest(2, 3, "delete", boxA, none), api.CodeTimeout), withError(newRequest(2, 3, "delete", boxA, none), api.CodeBusy),
			newRequest(4, 5, "get", "", running), withError(newRequest(6, 7, "get", "", none), api.CodeNotFound)}},
		"told that it is gone by one and that it goes by another": {true, []request{make, newRequest(2, 9, "delete", boxA, none), withError(newRequest(3, 8, "get", boxA, none), api.CodeDeleted), newRequest(4, 5, "get", boxA, gone)}},
		"looked last, answered first":                             {true, []request{make, newRequest(2, 9, "get", "", stopped), newRequest(3, 8, "stop", boxA, stopped), newRequest(4, 5, "get", "", recordOf(boxA, "running", "stopped", 1))}},
		"wished again after another wish":                         {true, []request{make, newRequest(2, 9, "ensure", "", running), newRequest(3, 4, "stop", boxA, stopped), newRequest(10, 11, "get", "", running)}},
		"wished again by nobody":                                  {false, []request{make, newRequest(2, 4, "ensure", "", running), newRequest(5, 6, "stop", boxA, stopped), newRequest(10, 11, "get", "", running)}},
		"the first of two alike came last":                        {true, []request{make, newRequest(2, 20, "ensure", "", running), newRequest(5, 6, "ensure", "", running), newRequest(8, 9, "stop", boxA, stopped), newRequest(21, 22, "get", "", running)}},
		"the first of two alike came first": {true, []request{make, newRequest(2, 20, "ensure", "", running), newRequest(3, 4, "stop", boxA, stopped),
			newRequest(5, 6, "get", "", recordOf(boxA, "starting", "running", 1)), newRequest(10, 11, "ensure", "", running)}},
		"two that wished the same and saw different things": {true, []request{make, newRequest(2, 3, "stop", boxA, stopped), newRequest(4, 20, "ensure", "", running), newRequest(5, 19, "ensure", "", recordOf(boxA, "running", "running", 2)),
			newRequest(6, 7, "get", "", running), newRequest(8, 9, "terminate", boxA, recordOf(boxA, "terminated", "gone", 1))}},
		"two alike came both too early": {false, []request{make, newRequest(2, 7, "ensure", "", running), newRequest(5, 6, "ensure", "", running), newRequest(8, 9, "stop", boxA, stopped), newRequest(21, 22, "get", "", running)}},
	} {
		inOrder(c.history)
		if legal := porcupine.CheckOperations(lifecycle, movesOf(c.history)); legal != c.legal {
			t.Errorf("%s: legal is %v\n%v", name, legal, c.history)
		}
	}
}

// Many similar requests with a delete between them have very many orders. The search has to skip nearly all of them:
// with all of them it takes millions of steps.
func TestModelDecidesCrowdedHistories(t *testing.T) {
	history := readHistory(t, "testdata/deleted_under_ensures.txt")
	twice := slices.Clone(history)
	twice[slices.IndexFunc(twice, func(r request) bool { return !r.made && r.row.id == "5078" })].made = true
	for name, c := range map[string]struct {
		history []request
		result  porcupine.CheckResult
	}{
		"as it was":       {history, porcupine.Ok},
		"5078 made twice": {twice, porcupine.Illegal},
	} {
		steps, model := 0, lifecycle
		model.Step = func(state, input, output any) (bool, any) {
			steps++
			return lifecycle.Step(state, input, output)
		}
		result := porcupine.CheckOperationsTimeout(model, movesOf(c.history), 2*time.Minute)
		if t.Logf("%s: %s after %d steps", name, result, steps); result != c.result || steps > 1_000_000 {
			t.Errorf("%s: %s after %d steps", name, result, steps)
		}
	}
}

var printed = regexp.MustCompile(`^ *([0-9.]+)- *([0-9.]+) ms client +(-?\d+): (\w+)(?: of (\w+))?(: made)?: (.*)$`)

// readHistory parses a history in the form that a failed check prints.
func readHistory(t *testing.T, file string) (history []request) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ms := func(s string) int64 {
		ms, _ := strconv.ParseFloat(s, 64)
		return int64(math.Round(ms * 1e6))
	}
	for line := range strings.Lines(string(text)) {
		p := printed.FindStringSubmatch(strings.TrimSpace(line))
		if p == nil {
			t.Fatalf("%s: not a request: %q", file, line)
		}
		r := request{verb: p[4], id: p[5], call: ms(p[1]), ret: ms(p[2]), made: p[6] != ""}
		r.client, _ = strconv.Atoi(p[3])
		switch told := strings.Fields(p[7]); {
		case p[7] == "done":
			r.done = true
		case len(told) == 1:
			r.code = api.Code(p[7])
		default: // id/incarnation state [want wish] [deleted]
			id, number, _ := strings.Cut(told[0], "/")
			incarnation, _ := strconv.ParseInt(number, 10, 64)
			r.row = recordOf(id, told[1], told[1], incarnation)
			if len(told) > 3 {
				r.row.want = told[3]
			}
			r.row.deleted = told[len(told)-1] == "deleted"
		}
		if line = strings.TrimSpace(line); strings.TrimSpace(r.String()) != line {
			t.Fatalf("%s: read %q as %q", file, line, r)
		}
		history = append(history, r)
	}
	return history
}

// The orders that the search skips make no difference: for random histories its result equals that of a search of all
// orders.
func TestModelLeavesNoOrderOut(t *testing.T) {
	count := map[bool]int{}
	for seed := range uint64(3000) {
		history := anyHistory(rand.New(rand.NewPCG(seed, 0)))
		legal := fits(history)
		count[legal]++
		if found := porcupine.CheckOperations(lifecycle, movesOf(history)); found != legal {
			t.Fatalf("seed %d: legal is %v, found %v\n%v", seed, legal, found, history)
		}
	}
	if t.Logf("legal: %v", count); min(count[true], count[false]) < 300 {
		t.Errorf("too much alike: %v", count)
	}
}

// fits tries every order of the moves of a history.
func fits(history []request) bool {
	var runs [][]*step // remaining steps of each request
	for steps := scriptOf(history).steps; len(steps) > 0; {
		n := len(steps[0].rest)
		runs, steps = append(runs, steps[:n]), steps[n:]
	}
	tried := map[string]bool{}
	var try func(may []world) bool
	try = func(may []world) bool {
		left, first := 0, int64(math.MaxInt64)
		key := fmt.Sprint(may)
		for _, run := range runs {
			key += fmt.Sprint(" ", len(run))
			for _, m := range run {
				left, first = left+1, min(first, m.ret)
			}
		}
		if left == 0 || len(may) == 0 || tried[key] {
			return left == 0 && len(may) > 0
		}
		tried[key] = true
		for i, run := range runs {
			if len(run) == 0 || run[0].call > first {
				continue
			}
			runs[i] = run[1:]
			ok := try(worlds{may: may}.after(run[0].move))
			if runs[i] = run; ok {
				return true
			}
		}
		return false
	}
	return try([]world{{}})
}

// anyHistory returns a random history of a few overlapping requests with possible answers. Half of the histories are
// then changed at random, so that some become impossible.
func anyHistory(dice *rand.Rand) (history []request) {
	var w world
	ids := []string{""}
	for i := range int64(5 + dice.IntN(5)) {
		r := newRequest(10*i-dice.Int64N(15), 10*i+dice.Int64N(15), pick(dice, "ensure", "ensure", "ensure", "get", "get", "start", "stop", "terminate", "restart", "delete", "delete"), "", seen{})
		if r.id = pick(dice, ids...); r.verb == "ensure" {
			r.id = ""
		} else if r.id == "" {
			r.verb = "get"
		}
		before := w
		if !r.answer(dice, &w) {
			w = before
			continue
		}
		if r.row.id != "" && !slices.Contains(ids, r.row.id) {
			ids = append(ids, r.row.id)
		}
		if dice.IntN(5) == 0 && r.verb != "get" {
			r = withError(r, pick(dice, api.CodeBusy, api.CodeTimeout))
			r.made, w = false, pick(dice, w, before)
		}
		history = append(history, r)
	}
	for range dice.IntN(2) * len(history) / 2 {
		r, o := &history[dice.IntN(len(history))], &history[dice.IntN(len(history))]
		switch by := dice.Int64N(80) - 40; dice.IntN(4) {
		case 0, 1:
			r.call, r.ret = r.call+by, r.ret+by
		case 2:
			if r.verb == o.verb {
				r.row, r.code, o.row, o.code = o.row, o.code, r.row, r.code
			}
		case 3:
			r.made = !r.made
		}
	}
	inOrder(history)
	return history
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

// answer sets a possible answer of a request in the world w, without other requests at the same time. It returns false
// if it found none.
func (r *request) answer(dice *rand.Rand, w *world) bool {
	mark := ""
	if r.id != "" {
		mark = w.mark(r.id)
	}
	var moves []move
	switch {
	case mark == "-" && r.verb == "get":
		r.row = recordOf(r.id, pick(dice, "running", "stopped"), "gone", 1)
		r.row.deleted = true
		return true
	case mark != "":
		*r = withError(*r, api.CodeDeleted)
		return true
	case r.verb == "get" && !w.is:
		*r = withError(*r, api.CodeNotFound)
		return true
	case r.verb == "delete":
		moves = []move{{what: "delete", id: r.id}}
		if r.done = dice.IntN(2) == 0; r.done {
			moves = append(moves, move{what: "gone", id: r.id})
		}
	case r.verb == "ensure" && !w.is:
		r.made = true
		moves = []move{{what: "make", id: string(rune('A' + dice.IntN(26)))}}
	case r.verb == "restart":
		moves = []move{{what: "wish", want: "stopped"}, {what: "wish", want: "running"}}
	case r.verb != "get":
		moves = []move{{what: "wish", want: wishes[r.verb]}}
	}
	for _, m := range moves {
		next := w.do(m)
		if len(next) == 0 {
			return false
		}
		*w = next[0]
	}
	for range 50 {
		if r.verb == "delete" {
			return true
		}
		r.row = recordOf(w.row.id, string(pick(dice, sandbox.States...)), w.row.want, w.row.incarnation+dice.Int64N(2))
		if next := w.look(r.row); len(next) > 0 && (r.verb == "get" || r.satisfied()) {
			*w = next[0]
			return true
		}
	}
	return false
}
