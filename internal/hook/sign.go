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

// Headers of a webhook's calls, as standard-webhooks has them.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// secretPrefix is how secrets of webhooks begin; what follows is base64.
const secretPrefix = "whsec_"

// secretKey is the key in a webhook's secret.
func secretKey(secret string) ([]byte, bool) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	return key, ok && err == nil && len(key) >= 24 && len(key) <= 64
}

// sign signs a call: its id, when it is made, and what is sent.
func sign(secret, id string, at time.Time, body []byte) string {
	key, _ := secretKey(secret) // it was checked when the server started
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// checkWebhook says what is wrong with the address or the secret of a webhook.
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
	if _, ok := secretKey(s.Secret); !ok {
		return &Fault{"secret", "", "is no secret to sign with", `write "whsec_" and 24 to 64 random bytes in base64: echo "whsec_$(head -c 32 /dev/urandom | base64 -w0)"`}
	}
	return nil
}
