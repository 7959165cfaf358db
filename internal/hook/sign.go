package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Headers of a webhook's calls, defined by the standard-webhooks specification.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// secretPrefix begins each secret of a webhook. The rest is base64.
const secretPrefix = "whsec_"

// decodeSecret returns the signing key in a webhook's secret. It returns false if the secret is not valid.
func decodeSecret(secret string) ([]byte, bool) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	return key, ok && err == nil && len(key) >= 24 && len(key) <= 64
}

// sign returns the signature of a call's id, time and body.
func sign(secret, id string, at time.Time, body []byte) string {
	key, _ := decodeSecret(secret) // it was checked when the server started
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// checkWebhook returns the problem of the address or the secret of a webhook, or nil.
func (s Spec) checkWebhook() *Fault {
	if s.URL == "" {
		if s.Secret != "" || s.AllowPrivate {
			return &Fault{"", "", "has a secret or allow_private, and no url", "write url, or remove them"}
		}
		return nil
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return &Fault{"url", "", "is no address of a webhook", `write "https://host/path"`}
	case u.User != nil:
		return &Fault{"url", "", "has a user in it", "the receiver knows Berth by the signature; remove the user"}
	case u.Scheme != "https" && !s.AllowPrivate:
		return &Fault{"url", u.Scheme + "://" + u.Host, "is not https", "write https, or allow_private = true for a receiver in your own network"}
	}
	if _, ok := decodeSecret(s.Secret); !ok {
		return &Fault{"secret", "", "is no secret to sign with", `write "whsec_" and 24 to 64 random bytes in base64: echo "whsec_$(head -c 32 /dev/urandom | base64 -w0)"`}
	}
	return nil
}
