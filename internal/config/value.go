package config

import (
	"strconv"
	"strings"
)

// value is what a file says about one setting.
type value struct {
	v      any
	origin string
}

// text turns a TOML value into the text a flag would carry, if its type fits
// the kind.
func (v value) text(kind Kind) (string, *fault) {
	numeric := kind == Duration || kind == Size || kind == Cap
	switch x := v.v.(type) {
	case string:
		return x, nil
	case bool:
		if kind == Switch {
			return strconv.FormatBool(x), nil
		}
	case int64:
		if numeric {
			return strconv.FormatInt(x, 10), nil
		}
	case []any:
		if kind == List {
			return joinStrings(x)
		}
	}
	if numeric {
		return "", faultf("write a whole number or text in quotes", "has a type that does not fit")
	}
	if kind == Switch {
		return "", faultf("write true or false", "has a type that does not fit")
	}
	return "", faultf("write text in double quotes", "has a type that does not fit")
}

func joinStrings(items []any) (string, *fault) {
	texts := make([]string, len(items))
	for i, item := range items {
		s, ok := item.(string)
		if !ok {
			return "", faultf(`write texts in quotes, such as ["a", "b"]`, "has an entry that is no text")
		}
		texts[i] = s
	}
	return strings.Join(texts, ","), nil
}
