package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Signer signs texts that clients keep and send back, such as cookies and addresses. It reveals nothing that is in them,
// but hides nothing either.
type Signer struct{ keys [][]byte } // the newest first

// NewSigner returns a signer for one purpose. It signs with the newest secret, and accepts what was signed with a previous
// one, so that servers can get a new secret one by one.
func NewSigner(purpose string, newest Secret, previous ...Secret) Signer {
	s := Signer{keys: [][]byte{newest.Derive(purpose)}}
	for _, old := range previous {
		s.keys = append(s.keys, old.Derive(purpose))
	}
	return s
}

var signedText = base64.RawURLEncoding

// Sign returns the text with its signature. The result has only characters that may be in a cookie and in a URL.
func (s Signer) Sign(text string) string {
	return signedText.EncodeToString([]byte(text)) + "." + signedText.EncodeToString(sign(s.keys[0], text))
}

// Open returns the text of a result of Sign. It returns false if the signature does not fit.
func (s Signer) Open(signed string) (text string, ok bool) {
	encoded, encodedSum, _ := strings.Cut(signed, ".")
	decoded, err := signedText.Strict().DecodeString(encoded)
	sum, err2 := signedText.Strict().DecodeString(encodedSum)
	if err != nil || err2 != nil {
		return "", false
	}
	for _, key := range s.keys {
		if hmac.Equal(sum, sign(key, string(decoded))) {
			return string(decoded), true
		}
	}
	return "", false
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
