-- +goose Up

-- Environment variables, overrides of agents and stored answers are encrypted by the server. sealed is the
-- fingerprint of the secret that a row's value is encrypted with; empty: it is plain text, or there is nothing to
-- encrypt. The indexes find the rows that another secret than the present one is needed for.
alter table sandboxes add column sealed text not null default '';
create index sandboxes_sealed on sandboxes (sealed, id) where env <> '{}';
alter table conversations add column sealed text not null default '';
create index conversations_sealed on conversations (sealed, id) where env <> '{}';
alter table agents add column sealed text not null default '';
create index agents_sealed on agents (sealed, id) where overrides <> '{}';
alter table idempotency_keys add column sealed text not null default '';
create index idempotency_keys_sealed on idempotency_keys (sealed, tenant, route, idem_key) where status <> 0;

-- The servers that share the database, and the secrets that each knows, as fingerprints. A new secret is written
-- with once every server knows it.
create table servers (
    id      text primary key,
    name    text not null, -- machine and process, for people
    secrets text not null, -- a JSON list, the newest first
    writes  text not null, -- the secret that it encrypts with
    seen_at timestamptz not null
);
