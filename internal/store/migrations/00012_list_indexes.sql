-- +goose Up

-- Lists of one kind of owner in one state: GET /projects/sandboxes?status=.
create index sandboxes_kind_state on sandboxes (tenant, owner_kind, state, created_at, id) where deleted_at is null;

-- Tombstones whose versions are not gone yet; most tombstones of an old database are not among them.
create index sandboxes_unpurged on sandboxes (id) where deleted_at is not null and state = 'terminated' and synced_incarnation > -2;

create index tenants_list on tenants (created_at, id);

-- Each kind of message has its own queue: a backlog of one is not walked to find another.
create index outbox_kind_due on outbox (kind, due_at, id);
