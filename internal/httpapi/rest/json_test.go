package rest

import (
	"encoding/json"
	"testing"
)

func FuzzStrictJSONIsJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x",null,{"b":1e999}]}`, `{"a":1,"a":2}`, `[[[]]]`, "{", `"\ud800"`, "\xff", `"\u0000"`, `1 2`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := checkJSON(data); err == nil && !json.Valid(data) {
			t.Errorf("%q passes and is no JSON", data)
		}
	})
}
