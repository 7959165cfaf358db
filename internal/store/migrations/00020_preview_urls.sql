-- +goose Up

-- Signed URLs of sandboxes' ports. A URL carries its row's id under a signature; the row is there so that it can be
-- ended before it expires. It ends with the key that made it, too.
create table preview_urls (
    id         text primary key,
    tenant     text not null references tenants (id),
    sandbox    text not null, -- the stored id
    port       integer not null,
    key_id     text not null references api_keys (id),
    created_at timestamptz not null,
    expires_at timestamptz not null,
    revoked_at timestamptz
);
create index preview_urls_port on preview_urls (tenant, sandbox, port);
create index preview_urls_expiry on preview_urls (expires_at);
