package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Outcome is the result of claiming an idempotency key.
type Outcome string

// The outcomes of a claim.
const (
	ClaimFresh    Outcome = "fresh"     // claimed: do the work, then call Finish or Release
	ClaimDone     Outcome = "done"      // the work is done: return its stored answer
	ClaimInFlight Outcome = "in_flight" // another holder is doing the work
	ClaimMismatch Outcome = "mismatch"  // the key was used with another body
)

// ClaimRequest claims an idempotency key. Tenant, route and key together name the work.
type ClaimRequest struct {
	Route, Key string
	BodyHash   string
	Holder     string
	TTL        time.Duration // how long the claim lives unless renewed
}

// Claim is the result of a ClaimRequest.
type Claim struct {
	Outcome  Outcome
	EffectID string // the id for the object that the work creates; the same in each attempt
	Answer   Answer // set if Outcome is ClaimDone

	tenant     TenantID
	route, key string
	holder     string
	epoch      int64
}

// Answer is a stored response.
type Answer struct {
	Status int
	Header map[string][]string // the headers to send again
	Body   []byte
}

// Requests holds the idempotency keys of a tenant's requests and the stored answers.
type Requests struct{ scope Scope }

// Requests returns the tenant's idempotency keys.
func (s Scope) Requests() Requests { return Requests{s} }

// Claim claims the key in one statement. Exactly one of several concurrent claims is fresh. After the holder of a
// claim has died, the next claim has the same EffectID, so that an object which the dead holder created is found and
// not created again.
func (requests Requests) Claim(ctx context.Context, r ClaimRequest) (Claim, error) {
	const op = "claim idempotency key"
	for {
		claim, err := requests.claimFresh(ctx, r)
		if errors.Is(err, sql.ErrNoRows) {
			claim, err = requests.claimKnown(ctx, r)
		}
		if !errors.Is(err, sql.ErrNoRows) { // ErrNoRows: the key expired between the two statements
			return claim, requests.scope.db.fail(op, err)
		}
	}
}

// claimFresh claims a new key, or one whose claim expired. It returns sql.ErrNoRows when the key is held, done, or used with another
// body.
func (requests Requests) claimFresh(ctx context.Context, r ClaimRequest) (Claim, error) {
	c := Claim{Outcome: ClaimFresh, tenant: requests.scope.tenant, route: r.Route, key: r.Key, holder: r.Holder}
	_, err := first(ctx, requests.scope.db.write, func(row scanner) (any, error) { return nil, row.Scan(&c.EffectID, &c.epoch) }, `
		insert into idempotency_keys (tenant, route, idem_key, body_hash, effect_id, holder, epoch, until, status, header, created_at)
		values ($1, $2, $3, $4, $5, $6, 1, {now+$7}, 0, '{}', {now})
		on conflict (tenant, route, idem_key) do update
			set holder = excluded.holder, epoch = idempotency_keys.epoch + 1, until = excluded.until
			where idempotency_keys.status = 0 and idempotency_keys.until <= {now}
				and idempotency_keys.body_hash = excluded.body_hash
		returning effect_id, epoch`,
		requests.scope.tenant, r.Route, r.Key, r.BodyHash, NewID(), r.Holder, r.TTL.Microseconds())
	if err != nil {
		return Claim{}, err
	}
	return c, nil
}

func (requests Requests) claimKnown(ctx context.Context, r ClaimRequest) (Claim, error) {
	return first(ctx, requests.scope.db.read, func(row scanner) (c Claim, err error) {
		var hash, header string
		err = row.Scan(&hash, &c.EffectID, &c.Answer.Status, &header, &c.Answer.Body)
		switch {
		case err != nil:
		case hash != r.BodyHash:
			c = Claim{Outcome: ClaimMismatch}
		case c.Answer.Status == 0:
			c = Claim{Outcome: ClaimInFlight, EffectID: c.EffectID}
		default:
			c.Outcome = ClaimDone
			err = requests.scope.db.secrets.openAnswer(keyAnswer(requests.scope.tenant, r.Route, r.Key), header, &c.Answer)
		}
		return c, err
	}, `select body_hash, effect_id, status, header, body from idempotency_keys
		where tenant = $1 and route = $2 and idem_key = $3`, requests.scope.tenant, r.Route, r.Key)
}

// Renew extends the claim to ttl from now. It returns ErrStale when another holder has it.
func (requests Requests) Renew(ctx context.Context, c Claim, ttl time.Duration) error {
	return requests.update(ctx, "renew idempotency key", `until = {now+$6}`, c, ttl.Microseconds())
}

// Finish stores the answer that all later claims of the key get. It returns ErrStale when another holder has the
// claim.
func (requests Requests) Finish(ctx context.Context, c Claim, a Answer) error {
	const op = "finish idempotency key"
	header, body, sealed, err := requests.scope.db.secrets.sealAnswer(keyAnswer(requests.scope.tenant, c.route, c.key), a)
	if err != nil {
		return requests.scope.db.fail(op, err)
	}
	return requests.update(ctx, op, `until = {now}, status = $6, header = $7, body = $8, sealed = $9`, c, a.Status, header, body, sealed)
}

// Release gives up the claim without an answer: the next claim is fresh and has the same EffectID.
func (requests Requests) Release(ctx context.Context, c Claim) error {
	return requests.update(ctx, "release idempotency key", `until = {now}, holder = ''`, c)
}

// update updates the key if the claim still holds it. The arguments of set begin at $6.
func (requests Requests) update(ctx context.Context, op, set string, c Claim, args ...any) error {
	n, err := requests.scope.db.write.exec(ctx, `
		update idempotency_keys set `+set+`
		where tenant = $1 and route = $2 and idem_key = $3 and holder = $4 and epoch = $5 and status = 0`,
		append([]any{c.tenant, c.route, c.key, c.holder, c.epoch}, args...)...)
	if err == nil && n == 0 {
		return stale(op, "the idempotency key")
	}
	return requests.scope.db.fail(op, err)
}

// ExpireKeys removes up to limit idempotency keys that were first claimed before the given time and have no holder.
// It returns how many.
func (db *DB) ExpireKeys(ctx context.Context, before time.Time, limit int) (int64, error) {
	n, err := db.write.exec(ctx, `
		delete from idempotency_keys where (tenant, route, idem_key) in
			(select tenant, route, idem_key from idempotency_keys
			where created_at < $1 and until <= {now} order by created_at limit $2 {skip locked})`, at(before), clampLimit(limit))
	return n, db.recordScan("expire idempotency keys", err)
}
