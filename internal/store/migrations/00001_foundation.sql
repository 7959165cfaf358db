-- +goose Up

-- One text for both engines. SQLite gives timestamptz and bytea numeric affinity, which leaves
-- integers (microseconds since 1970, UTC) and blobs as they are.

create table tenants (
    id         text primary key,
    name       text not null,
    created_at timestamptz not null
);

create table accounts (
    id         text primary key,
    tenant     text not null references tenants (id),
    name       text not null,
    email      text not null,
    created_at timestamptz not null,
    deleted_at timestamptz
);
create unique index accounts_name on accounts (tenant, name) where name <> '' and deleted_at is null;
create index accounts_list on accounts (tenant, created_at, id) where deleted_at is null;

create table agents (
    id         text primary key,
    tenant     text not null references tenants (id),
    name       text not null,
    template   text not null,
    overrides  text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deleted_at timestamptz
);
create unique index agents_name on agents (tenant, name) where name <> '' and deleted_at is null;
create index agents_list on agents (tenant, created_at, id) where deleted_at is null;

create table api_keys (
    id           text primary key,
    tenant       text not null references tenants (id),
    account      text not null,
    label        text not null,
    prefix       text not null,
    hash         bytea not null,
    scopes       text not null,
    created_at   timestamptz not null,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);
create unique index api_keys_hash on api_keys (hash);
create index api_keys_list on api_keys (tenant, created_at, id);

-- Sandboxes do not reference tenants: every create would lock its tenant's row.
create table sandboxes (
    id                 text primary key,
    tenant             text not null,
    owner_kind         text not null,
    owner_id           text not null,
    name               text not null,
    template           text not null,
    driver             text not null,
    profile            text not null,
    env                text not null,
    metadata           text not null,
    host               text not null,
    state              text not null,
    want               text not null,
    deleted_at         timestamptz,
    generation         bigint not null,
    incarnation        bigint not null,
    instance           text not null,
    synced_version     text not null,
    synced_incarnation bigint not null,
    failure            text,
    changes            bigint not null,
    created_at         timestamptz not null,
    started_at         timestamptz,
    active_at          timestamptz not null,
    probed_at          timestamptz,
    destroyed_at       timestamptz,
    due_at             timestamptz
);
create unique index sandboxes_owner on sandboxes (tenant, owner_kind, owner_id) where deleted_at is null;
create unique index sandboxes_name on sandboxes (tenant, name) where name <> '' and deleted_at is null;
create unique index sandboxes_instance on sandboxes (driver, instance) where instance <> '';
create index sandboxes_due on sandboxes (due_at) where due_at is not null;
create index sandboxes_all on sandboxes (tenant, created_at, id);
create index sandboxes_live on sandboxes (tenant, created_at, id) where deleted_at is null;
create index sandboxes_state on sandboxes (tenant, state, created_at, id) where deleted_at is null;
create index sandboxes_ending on sandboxes (tenant, created_at, id) where state = 'terminating';
create index sandboxes_kind on sandboxes (tenant, owner_kind, created_at, id) where deleted_at is null;
create index sandboxes_template on sandboxes (tenant, template, created_at, id) where deleted_at is null;
create index sandboxes_driver on sandboxes (tenant, driver, created_at, id) where deleted_at is null;

create table history (
    sandbox     text not null references sandboxes (id),
    seq         bigint not null,
    at          timestamptz not null,
    event       text not null,
    from_state  text not null,
    to_state    text not null,
    want        text not null,
    reason      text not null,
    actor       text not null,
    generation  bigint not null,
    incarnation bigint not null,
    instance    text not null,
    primary key (sandbox, seq)
);

create table leases (
    kind   text not null,
    id     text not null,
    holder text not null,
    epoch  bigint not null,
    until  timestamptz not null,
    primary key (kind, id)
);

create table holds (
    sandbox text not null references sandboxes (id),
    kind    text not null,
    ref     text not null,
    until   timestamptz not null,
    primary key (sandbox, kind, ref)
);
create index holds_until on holds (until);

create table idempotency_keys (
    tenant     text not null,
    route      text not null,
    idem_key   text not null,
    body_hash  text not null,
    effect_id  text not null,
    holder     text not null,
    epoch      bigint not null,
    until      timestamptz not null,
    status     bigint not null,
    header     text not null,
    body       bytea,
    created_at timestamptz not null,
    primary key (tenant, route, idem_key)
);
create index idempotency_keys_age on idempotency_keys (created_at);

create table outbox (
    id         text primary key,
    tenant     text not null,
    kind       text not null,
    payload    bytea not null,
    attempts   bigint not null,
    last_error text not null,
    created_at timestamptz not null,
    due_at     timestamptz not null
);
create index outbox_due on outbox (due_at);
create index outbox_list on outbox (tenant, created_at, id);
