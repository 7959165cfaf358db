-- +goose Up

-- Values that a tenant gives to its sandboxes by name: keys of model services, tokens. A value is a JSON text,
-- encrypted like those of 00015.
create table tenant_secrets (
    tenant     text not null references tenants (id),
    name       text not null,
    value      text not null,
    sealed     text not null default '',
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (tenant, name)
);
create index tenant_secrets_sealed on tenant_secrets (sealed, tenant, name);
