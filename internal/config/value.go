package config

import (
	"strconv"
	"strings"
)

// value is the value of one setting in a configuration file.
type value struct {
	v      any
	origin string
}

// text converts a TOML value to the text that a flag would have. It fails if the TOML type does not fit the kind.
func (v value) text(kind Kind) (string, *badValue) {
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
		return "", badValuef("write a whole number or text in quotes", "has a type that does not fit")
	}
	if kind == Switch {
		return "", badValuef("write true or false", "has a type that does not fit")
	}
	return "", badValuef("write text in double quotes", "has a type that does not fit")
}

func joinStrings(items []any) (string, *badValue) {
	texts := make([]string, len(items))
	for i, item := range items {
		s, ok := item.(string)
		if !ok {
			return "", badValuef(`write texts in quotes, such as ["a", "b"]`, "has an entry that is no text")
		}
		texts[i] = s
	}
	return strings.Join(texts, ","), nil
}
