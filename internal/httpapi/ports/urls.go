package ports

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/berthdev/berth/api"
	"github.com/berthdev/berth/internal/auth"
	"github.com/berthdev/berth/internal/fault"
	"github.com/berthdev/berth/internal/httpapi/access"
	"github.com/berthdev/berth/internal/httpapi/exchange"
	"github.com/berthdev/berth/internal/httpapi/rest"
	"github.com/berthdev/berth/internal/preview"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/store"
)

// addURLs adds the routes of signed URLs.
func (a *handlers) addURLs(op access.OperationFunc) {
	problems := []api.Code{api.CodeInvalidID, api.CodeNotFound, api.CodeDeleted, api.CodeUnsupported}
	create := op(http.MethodPost, "/{id}/ports/{port}/url", "create-port-url", api.ScopeWrite, "Create a signed URL of a port",
		append([]api.Code{api.CodeNotReplayable}, problems...)...)
	create.Description = "Everyone who has the URL may use the port, until it expires, until it is revoked, or until the key that made it ends. A browser that opens it gets a cookie for the origin of the port. " +
		"Requests wake a stopped sandbox and keep it from being idle. The URL is not stored for the Idempotency-Key: a repeated request returns 409 not_replayable."
	create.Secret, create.Status = true, http.StatusCreated
	rest.Serve(a.Spec, create, a.createURL)
	revoke := op(http.MethodDelete, "/{id}/ports/{port}/url", "revoke-port-urls", api.ScopeWrite, "Revoke the signed URLs of a port", problems...)
	revoke.Description = "Requests with the URLs, and with the cookies made from them, end within two seconds on every server."
	rest.Serve(a.Spec, revoke, a.revokeURLs)
}

// OnPort has the path parameters of routes for one port. It is exported because huma ignores unexported embedded structs.
type OnPort struct {
	access.ByRef
	Port string `path:"port" doc:"The port, 1 to 65535"`
}

type createURL struct {
	OnPort
	Body *api.CreatePortURL
}

func (a *handlers) createURL(ctx context.Context, in *createURL) (*rest.Created[api.PortURL], error) {
	want := api.CreatePortURL{}
	if in.Body != nil {
		want = *in.Body
	}
	path, err := checkTarget(want.Path)
	if err != nil {
		return nil, err
	}
	s, port, err := a.portOf(ctx, in.OnPort)
	if err != nil {
		return nil, err
	}
	who, _ := auth.PrincipalFrom(ctx)
	lifetime := time.Duration(cmp.Or(want.ExpiresInSeconds, api.PortURLSeconds)) * time.Second
	u, err := a.In(ctx).Keys().URLs().Create(ctx, store.PreviewURL{
		ID: exchange.EffectID(ctx), Sandbox: s.ID, Port: port, Key: store.Key{ID: who.KeyID},
	}, lifetime)
	if fault.CodeOf(err) == api.CodeConflict {
		return nil, exchange.NewProblem(api.CodeNotReplayable, "the first request with this Idempotency-Key made a URL, but its answer was lost")
	}
	if err != nil {
		return nil, err
	}
	origin := a.Origins.Origin(exchange.Of(ctx).Request, s.ID, port)
	return &rest.Created[api.PortURL]{Status: http.StatusCreated, Body: api.PortURL{
		ID: u.ID, SandboxID: sandbox.PublicID(s.ID), Port: int(port), Origin: origin,
		URL: SignedURL(origin, path, a.Origins.URLs.Sign(u)), CreatedAt: u.CreatedAt, ExpiresAt: u.ExpiresAt,
	}}, nil
}

// SignedURL returns the URL that opens a path with a token.
func SignedURL(origin, path, token string) string {
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	return origin + path + mark + tokenName + "=" + token
}

// checkTarget checks the path at which a URL opens the port.
func checkTarget(path string) (string, error) {
	if path == "" {
		return "/", nil
	}
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Fragment != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' }) {
		return "", exchange.InvalidField("body.path", "expected a path such as /page?x=1, percent-encoded and without a fragment")
	}
	return path, nil
}

type revokeURLs struct {
	OnPort
	URL string `query:"url" doc:"The id of the one URL to revoke; absent: all URLs of the port"`
}

func (a *handlers) revokeURLs(ctx context.Context, in *revokeURLs) (*struct{}, error) {
	s, port, err := a.portOf(ctx, in.OnPort)
	if err != nil {
		return nil, err
	}
	ids, err := a.In(ctx).Keys().URLs().Revoke(ctx, s.ID, port, in.URL)
	if err != nil {
		return nil, err
	}
	if in.URL != "" && len(ids) == 0 {
		return nil, fault.Errorf("revoke URL", api.CodeNotFound, "the port has no URL %s that could be revoked", exchange.Clip(in.URL))
	}
	for _, id := range ids {
		a.Origins.Sessions.End(exchange.OfURL(id), exchange.EndOfKey(api.CodeURLRevoked, "the URL of this request was revoked"))
	}
	return nil, nil
}

// portOf finds the sandbox of a request and parses its port. It returns an error if the server serves no origins.
func (a *handlers) portOf(ctx context.Context, in OnPort) (sandbox.Sandbox, uint16, error) {
	port, err := preview.ParsePort(in.Port)
	if err != nil {
		return sandbox.Sandbox{}, 0, err
	}
	if a.Origins.Domain == "" || a.Origins.URLs == nil {
		e := fault.Errorf("sign URL", api.CodeUnsupported, "this server has no domain for previews")
		e.Hint = "Set preview_domain (BERTH_PREVIEW_DOMAIN) to a domain with a wildcard record. Programs can use …/ports/{port}/ with an API key."
		return sandbox.Sandbox{}, 0, e
	}
	s, err := a.Find(ctx, in.ID)
	if err == nil && s.Deleted() {
		err = fault.Errorf("sign URL", api.CodeDeleted, "sandbox %s is being deleted", s.ID)
	}
	return s, port, err
}
