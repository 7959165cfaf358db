package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berthdev/berth/internal/httpapi/exchange"
)

// strictJSON decodes bodies that are exactly one JSON value, and encodes answers without HTML escapes.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error {
		if err := checkJSON(data); err != nil {
			return err
		}
		return json.Unmarshal(data, v)
	},
}

const maxDepth = 64

// checkJSON refuses input that encoding/json accepts: a field that is given twice (the last one would win), text that
// is not UTF-8, NUL (databases refuse it), and very deep nesting. Its errors name fields, never values.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("the body is not valid UTF-8")
	}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return explain(data, err)
	}
	s := &scanner{json.NewDecoder(bytes.NewReader(data))}
	s.dec.UseNumber() // numbers may have any size
	return s.value("", 0)
}

// explain adds the line and the column to a syntax error.
func explain(data []byte, err error) error {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return err
	}
	before := data[:syntax.Offset]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("not JSON at line %d, column %d: %w", line, column, err)
}

// scanner checks the values of a text that is valid JSON.
type scanner struct{ dec *json.Decoder }

func (s *scanner) token() json.Token {
	t, err := s.dec.Token()
	if err != nil {
		panic(err) // checkJSON has parsed the text before
	}
	return t
}

// value checks one value. at is its path in the body, for errors.
func (s *scanner) value(at string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("the body is nested deeper than %d levels", maxDepth)
	}
	switch t := s.token().(type) {
	case string:
		return checkText(at, t)
	case json.Delim:
		if t == '{' {
			return s.object(at, depth)
		}
		return s.array(at, depth)
	}
	return nil
}

func (s *scanner) object(at string, depth int) error {
	seen := map[string]bool{}
	for s.dec.More() {
		name := s.token().(string)
		field := strings.TrimPrefix(at+"."+exchange.Clip(name), ".")
		if seen[name] {
			return fmt.Errorf("the field %s is given twice", field)
		}
		seen[name] = true
		if err := checkText(field, name); err != nil {
			return err
		}
		if err := s.value(field, depth+1); err != nil {
			return err
		}
	}
	s.token()
	return nil
}

func (s *scanner) array(at string, depth int) error {
	for i := 0; s.dec.More(); i++ {
		if err := s.value(fmt.Sprintf("%s[%d]", at, i), depth+1); err != nil {
			return err
		}
	}
	s.token()
	return nil
}

func checkText(at, text string) error {
	if strings.ContainsRune(text, 0) {
		return fmt.Errorf("the field %s holds a NUL character", strings.ReplaceAll(at, "\x00", ""))
	}
	return nil
}
