package pid1

// These functions replace some of package strings. An import of strings would make Go initialise most of the program
// before this package.

// index returns the index of the first c in s, or -1.
func index(s string, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return -1
}

// cut cuts s at the first c.
func cut(s string, c byte) (before, after string, found bool) {
	if i := index(s, c); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// number parses a string of digits.
func number(s string) (n int, ok bool) {
	const most = 1 << 30
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n > most {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, s != ""
}

// digits returns n, which is not negative, in decimal.
func digits(n int) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}

// trim removes the slashes from both ends of a path.
func trim(path string) string {
	for len(path) > 0 && path[0] == '/' {
		path = path[1:]
	}
	for len(path) > 0 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	return path
}

// hasLine reports whether a line of text begins with prefix.
func hasLine(text []byte, prefix string) bool {
	for start := 0; start+len(prefix) <= len(text); start++ {
		if (start == 0 || text[start-1] == '\n') && string(text[start:start+len(prefix)]) == prefix {
			return true
		}
	}
	return false
}
